// printing.h: formatted messages: print, f-strings, format and %
#pragma once

#include "frontend/function_part.h"

#include "llvm/ADT/StringSet.h"

namespace qd::frontend {

/// A formatted message.
struct Fragments {
  llvm::SmallVector<mlir::Attribute> fragments; ///< literal text: string; operand: list with its format; number of the thread: unit
  llvm::SmallVector<mlir::Value> values;
  bool isConstant = false; ///< known while compiling; numbers are formatted as in Python
  void text(mlir::OpBuilder &builder, llvm::StringRef text);
  llvm::StringRef getText() const; ///< requires `isConstant`
};

class Printing : FunctionPart {
public:
  using FunctionPart::FunctionPart;

  void addLabeled(Fragments &fragments, llvm::StringRef label, const Operand &value);
  void addList(Fragments &fragments, llvm::StringRef label, const std::vector<Operand> &values);
  void print(nb::handle call);
  /// An f-string, `text.format(...)` or `text % ...`; false when the node is none of these.
  bool addFormatted(Fragments &fragments, nb::handle node);
  Operand visitFormatted(nb::handle node);

private:
  /// The arguments that the fields of a format use.
  struct FormatUse {
    size_t automatic = 0, count = 0;
    std::optional<bool> isNumbered; ///< none: no field of either kind yet
    llvm::StringSet<> names;
  };
  /// The value of a field such as `{x!r}`.
  Operand convertField(Operand value, char conversion);
  void addInterpolated(Fragments &fragments, nb::handle joined);
  void addFormat(Fragments &fragments, nb::handle format, const Arguments &arguments);
  void addFields(Fragments &fragments, nb::handle format, const Arguments &arguments, FormatUse &use);
  void addFragments(Fragments &fragments, const Operand &value, llvm::StringRef spec);
  void addField(Fragments &fragments, const Operand &value, llvm::StringRef spec); ///< formats known numbers as Python does
  void addOperand(Fragments &fragments, const Operand &value, llvm::StringRef spec);
};

} // namespace qd::frontend
