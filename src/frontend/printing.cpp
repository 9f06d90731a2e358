// printing.cpp: texts with run-time operands: print, assert, f-strings, format and %
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

using Kind = Value::Kind;

void FunctionBuilder::Pieces::text(OpBuilder &builder, llvm::StringRef text) {
  if (text.empty()) return;
  if (!pieces.empty())
    if (auto last = dyn_cast<StringAttr>(pieces.back())) {
      pieces.back() = builder.getStringAttr(last.getValue() + text);
      return;
    }
  pieces.push_back(builder.getStringAttr(text));
}

void FunctionBuilder::checkSpec(llvm::StringRef spec, Type type) {
  if (spec.empty()) return;
  char letter = spec.back();
  bool isNumberFormat = llvm::StringRef("diuxXoeEfFgGab").contains(letter);
  if (isNumberFormat && spec.drop_back().find_first_not_of("0123456789.+- #<>^=,_*") == llvm::StringRef::npos) return;
  if (spec.find_first_not_of("0123456789.+- #<>^=,_*") == llvm::StringRef::npos) return;
  fail(error::kType, "'" + spec + "' doesn't match '" + ir::describe(type) + "'.");
}

void FunctionBuilder::addOperand(Pieces &pieces, const Value &value, llvm::StringRef spec) {
  mlir::Value operand = emit(value);
  checkSpec(spec, operand.getType());
  pieces.pieces.push_back(builder.getArrayAttr({builder.getStringAttr(spec)}));
  pieces.values.push_back(operand);
}

void FunctionBuilder::addPieces(Pieces &pieces, const Value &value, llvm::StringRef spec) {
  switch (value.kind) {
  case Kind::Object: {
    // Numbers are printed as the kernel's own types are; everything else is a text now.
    if (session.python.isNumber(value.object) || session.python.isInstance(value.object, session.python.matrix))
      return addOperand(pieces, value, spec);
    nb::object text = nb::steal(PyObject_Format(value.object.ptr(), nb::str(spec.data(), spec.size()).ptr()));
    if (!text) throw nb::python_error();
    return pieces.text(builder, toText(text));
  }
  case Kind::Sequence: {
    bool isTuple = value.aggregate->isTuple;
    pieces.text(builder, isTuple ? "(" : "[");
    for (size_t index = 0; index < value.aggregate->items.size(); ++index) {
      pieces.text(builder, index ? ", " : "");
      addPieces(pieces, value.aggregate->items[index], spec);
    }
    return pieces.text(builder, isTuple ? (value.aggregate->items.size() == 1 ? ",)" : ")") : "]");
  }
  case Kind::Dictionary:
  case Kind::Struct: {
    pieces.text(builder, "{");
    for (size_t index = 0; index < value.aggregate->items.size(); ++index) {
      pieces.text(builder, (index ? ", " : "") + toText(nb::repr(value.aggregate->names[index])).str() + ": ");
      addPieces(pieces, value.aggregate->items[index], spec);
    }
    return pieces.text(builder, "}");
  }
  case Kind::Tensor: return pieces.text(builder, toText(nb::repr(value.object)));
  default: return addOperand(pieces, value, spec);
  }
}

void FunctionBuilder::addFormatted(Pieces &pieces, nb::handle joined) {
  for (nb::handle part : getAttribute(joined, names().values)) {
    if (kindOf(part) == NodeKind::Constant) {
      pieces.text(builder, toText(getAttribute(part, names().value)));
      continue;
    }
    At here(*this, part);
    Value value = visit(getAttribute(part, names().value));
    nb::object specNode = getAttribute(part, names().format_spec);
    std::string spec;
    if (!specNode.is_none()) spec = toText(known(visit(specNode))).str();
    addPieces(pieces, value, spec);
  }
}

void FunctionBuilder::addFormat(Pieces &pieces, llvm::StringRef format, const Arguments &arguments) {
  size_t automatic = 0;
  std::vector<bool> usedNames(arguments.named.size());
  std::vector<bool> usedPositions(arguments.positional.size());
  size_t highest = 0;
  while (!format.empty()) {
    size_t brace = format.find_first_of("{}");
    pieces.text(builder, format.take_front(brace));
    if (brace == llvm::StringRef::npos) break;
    format = format.drop_front(brace);
    if (format.size() > 1 && format[1] == format[0]) {
      pieces.text(builder, format.take_front(1));
      format = format.drop_front(2);
      continue;
    }
    size_t end = format.find('}');
    if (format[0] == '}' || end == llvm::StringRef::npos) fail(error::kSyntax, "the format has a single '" + format.take_front(1) + "'");
    auto [field, spec] = format.slice(1, end).split(':');
    format = format.drop_front(end + 1);
    size_t position = 0;
    if (field.empty() || !field.getAsInteger(10, position)) {
      position = field.empty() ? automatic++ : position;
      highest = std::max(highest, position + 1);
      if (position < arguments.positional.size()) {
        usedPositions[position] = true;
        addPieces(pieces, arguments.positional[position], spec);
      }
      continue;
    }
    auto found = llvm::find_if(arguments.named, [&](const auto &named) { return field == named.first; });
    if (found == arguments.named.end()) fail(error::kSyntax, "Keyword '" + field + "' not found.");
    usedNames[size_t(found - arguments.named.begin())] = true;
    addPieces(pieces, found->second, spec);
  }
  if (highest != arguments.positional.size())
    fail(error::kSyntax, "Expected " + std::to_string(highest) + " positional argument(s), but received " +
                             std::to_string(arguments.positional.size()) + " instead.");
  for (size_t index = 0; index < usedNames.size(); ++index)
    if (!usedNames[index]) fail(error::kSyntax, "Keyword '" + arguments.named[index].first + "' not used.");
}

void FunctionBuilder::addPercent(Pieces &pieces, llvm::StringRef format, const std::vector<Value> &operands) {
  size_t next = 0;
  while (!format.empty()) {
    size_t percent = format.find('%');
    pieces.text(builder, format.take_front(percent));
    if (percent == llvm::StringRef::npos) break;
    format = format.drop_front(percent + 1);
    if (format.consume_front("%")) {
      pieces.text(builder, "%");
      continue;
    }
    size_t end = format.find_first_of("diuxXoeEfFgGars");
    if (end == llvm::StringRef::npos || next >= operands.size()) fail(error::kSyntax, "the format and its operands do not go together");
    bool isPlain = format[end] == 's' || format[end] == 'r';
    addPieces(pieces, operands[next++], format.take_front(isPlain ? end : end + 1));
    format = format.drop_front(end + 1);
  }
  if (next != operands.size())
    fail(error::kSyntax, "the format takes " + std::to_string(next) + " operands, got " + std::to_string(operands.size()));
}

void FunctionBuilder::addArgument(Pieces &pieces, nb::handle at) {
  At here(*this, at);
  if (kindOf(at) == NodeKind::JoinedStr) return addFormatted(pieces, at);
  if (kindOf(at) == NodeKind::Call && kindOf(getAttribute(at, names().func)) == NodeKind::Attribute &&
      toText(getAttribute(getAttribute(at, names().func), names().attr)) == "format") {
    Value text = visit(getAttribute(getAttribute(at, names().func), names().value));
    if (text.isObject() && PyUnicode_Check(text.object.ptr())) return addFormat(pieces, toText(text.object), visitArguments(at));
  }
  if (kindOf(at) == NodeKind::BinOp && kindOf(getAttribute(at, names().op)) == NodeKind::Mod &&
      kindOf(getAttribute(at, names().left)) == NodeKind::Constant) {
    nb::object format = getAttribute(getAttribute(at, names().left), names().value);
    if (PyUnicode_Check(format.ptr())) {
      Value operands = visit(getAttribute(at, names().right));
      return addPercent(pieces, toText(format), operands.is(Kind::Sequence) ? operands.aggregate->items : std::vector<Value>{operands});
    }
  }
  addPieces(pieces, visit(at), "");
}

void FunctionBuilder::print(nb::handle at) {
  Pieces pieces;
  std::string separator = " ", end = "\n";
  for (nb::handle keyword : getAttribute(at, names().keywords)) {
    nb::object name = getAttribute(keyword, names().arg);
    nb::object value = toPython(visit(getAttribute(keyword, names().value)));
    bool isText = value && PyUnicode_Check(value.ptr());
    if (!name.is_none() && toText(name) == "flush") continue;
    if (name.is_none() || (toText(name) != "sep" && toText(name) != "end") || !isText)
      fail(error::kSyntax, "print() in kernels takes the keywords sep and end, which are constant texts" +
                               (name.is_none() ? llvm::Twine("") : ", got '" + toText(name) + "'"));
    (toText(name) == "sep" ? separator : end) = toText(value).str();
  }
  bool isFirst = true;
  for (nb::handle argument : getAttribute(at, names().args)) {
    if (!isFirst) pieces.text(builder, separator);
    isFirst = false;
    if (kindOf(argument) != NodeKind::Starred) {
      addArgument(pieces, argument);
      continue;
    }
    std::vector<Value> items = listItems(visit(getAttribute(argument, names().value)), "unpack");
    for (size_t index = 0; index < items.size(); ++index) {
      pieces.text(builder, index ? separator : "");
      addPieces(pieces, items[index], "");
    }
  }
  pieces.text(builder, end);
  create<ir::PrintOp>(builder.getArrayAttr(pieces.pieces), pieces.values);
}

} // namespace qd::frontend
