// matrix_methods.h: construction and methods of vectors and matrices
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

struct MatrixMethod;

class MatrixMethods : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  static bool hasMethod(mlir::Type type, llvm::StringRef name);
  Value callMatrixMethod(const Value &receiver, llvm::StringRef name, const Arguments &arguments);
  Value makeMatrix(Arguments &arguments, llvm::StringRef className);
  Value makeMatrixOfType(nb::handle type, Arguments &arguments);
  Value callMatrixFactory(llvm::StringRef name, const Value &matrixClass, Arguments &arguments);

private:
  static const llvm::StringMap<MatrixMethod> &getMatrixMethods();
};

} // namespace qd::frontend
