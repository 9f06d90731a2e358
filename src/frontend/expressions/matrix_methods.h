// matrix_methods.h: construction and methods of vectors and matrices
#pragma once

#include "frontend/function_part.h"

namespace qd::frontend {

struct MatrixMethod;

class MatrixMethods : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  static bool hasMethod(mlir::Type type, llvm::StringRef name);
  static nb::object listNames(); ///< of the methods of vectors and matrices
  Operand callMatrixMethod(const Operand &receiver, llvm::StringRef name, const Arguments &arguments);
  Operand makeMatrix(Arguments &arguments, llvm::StringRef className);
  Operand makeMatrixOfType(nb::handle type, Arguments &arguments);
  Operand callMatrixFactory(llvm::StringRef name, nb::handle matrixClass, Arguments &arguments);

private:
  static const llvm::StringMap<MatrixMethod> &getMatrixMethods();
};

} // namespace qd::frontend
