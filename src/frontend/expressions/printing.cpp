// printing.cpp: formatted messages: print, assert, f-strings, format and %
//
// In:   the syntax node of a formatted text, or a format and its arguments.
// Out:  Fragments: literal texts, and operands with their formats.
// Here: compile-time parts become literal text now; the runtime formats the operands.
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

void Fragments::text(OpBuilder &builder, llvm::StringRef text) {
  if (text.empty()) return;
  auto last = fragments.empty() ? StringAttr() : dyn_cast<StringAttr>(fragments.back());
  if (last)
    fragments.back() = builder.getStringAttr(last.getValue() + text);
  else
    fragments.push_back(builder.getStringAttr(text));
}

llvm::StringRef Fragments::getText() const {
  return fragments.empty() ? llvm::StringRef() : mlir::cast<StringAttr>(fragments[0]).getValue();
}

void Printing::addOperand(Fragments &fragments, const Operand &value, llvm::StringRef spec) {
  if (fragments.isConstant) fail(error::kSyntax, "an f-string with run-time values is supported in print and assert only");
  static constexpr llvm::StringLiteral kFlags = "0123456789.+- #<>^=,_*", kTypes = "diuxXoeEfFgGab";
  mlir::Value operand = conversions.emit(value);
  llvm::StringRef flags = !spec.empty() && kTypes.contains(spec.back()) ? spec.drop_back() : spec;
  Type scalar = ir::getScalar(operand.getType());
  if (flags.size() < spec.size() && llvm::StringRef("diuxXob").contains(spec.back()) && ir::isFloatScalar(scalar))
    fail(error::kType, "'" + spec + "' doesn't match '" + ir::describe(scalar) + "'.");
  bool isFilled = flags.size() > 1 && llvm::StringRef("<>^=").contains(flags[1]);
  if (flags.drop_front(isFilled ? 2 : 0).find_first_not_of(kFlags) != llvm::StringRef::npos)
    fail(error::kType, "'" + spec + "' doesn't match '" + ir::describe(operand.getType()) + "'.");
  fragments.fragments.push_back(builder.getArrayAttr({builder.getStringAttr(spec)}));
  fragments.values.push_back(operand);
}

void Printing::addFragments(Fragments &fragments, const Operand &value, llvm::StringRef spec) {
  runtimeDicts().requireKnownKeys(value, "cannot be printed: print its entries in a loop");
  if (value.is<DictView>()) return addFragments(fragments, makeTuple(collections().listItems(value, "print")), spec);
  if (value.is<Sequence>() || value.is<Dictionary>() || value.is<Struct>()) {
    const NamedAggregate &all = *value.findBase<NamedAggregate>();
    auto *sequence = value.find<Sequence>();
    bool isTuple = sequence && sequence->isTuple, isNamed = !sequence;
    size_t count = all.items.size();
    fragments.text(builder, isNamed ? "{" : isTuple ? "(" : "[");
    for (size_t index = 0; index < count; ++index) {
      fragments.text(builder, index ? ", " : "");
      if (isNamed) fragments.text(builder, toText(nb::repr(all.names[index])).str() + ": ");
      addFragments(fragments, all.items[index], spec);
    }
    return fragments.text(builder, isNamed ? "}" : !isTuple ? "]" : count == 1 ? ",)" : ")");
  }
  if (auto *tensor = value.find<Tensor>()) return fragments.text(builder, toText(nb::repr(tensor->object)));
  // Known numbers are formatted as typed operands, unless the text must be constant. Other known objects become literal text.
  if (!value.isObject() || (conversions.canEmit(value) && !fragments.isConstant)) return addOperand(fragments, value, spec);
  fragments.text(builder, toText(checked(PyObject_Format(value.getObject().ptr(), nb::str(spec.data(), spec.size()).ptr()))));
}

void Printing::addField(Fragments &fragments, const Operand &value, llvm::StringRef spec) {
  bool isPlain = spec.empty() && session.python.isNumber(value.getObject());
  isPlain ? fragments.text(builder, toText(nb::str(value.getObject()))) : addFragments(fragments, value, spec);
}

Operand Printing::visitFormatted(nb::handle at) {
  Fragments fragments;
  fragments.isConstant = true;
  addFormatted(fragments, at);
  llvm::StringRef text = fragments.getText();
  return makeObject(nb::str(text.data(), text.size()));
}

void Printing::addInterpolated(Fragments &fragments, nb::handle joined) {
  for (nb::handle part : getAttribute(joined, names().values)) {
    if (kindOf(part) == NodeKind::Constant) {
      fragments.text(builder, toText(getAttribute(part, names().value)));
      continue;
    }
    Operand value = expressions().visit(getAttribute(part, names().value));
    At here(context, joined); // parts have source locations only since Python 3.12
    nb::object specNode = getAttribute(part, names().format_spec);
    value = convertField(std::move(value), char(readInteger(part, names().conversion)));
    addField(fragments, value, specNode.is_none() ? "" : toText(visitFormatted(specNode).getObject()));
  }
}

Operand Printing::convertField(Operand value, char conversion) {
  nb::object known = conversions.toPython(value);
  if (known && conversion == 'r') return makeObject(nb::repr(known));
  return known && conversion == 's' ? makeObject(nb::str(known)) : value;
}

void Printing::addFormat(Fragments &fragments, nb::handle format, const Arguments &arguments) {
  FormatUse use;
  addFields(fragments, format, arguments, use);
  if (use.count != arguments.positional.size())
    fail(error::kSyntax, "Expected " + std::to_string(use.count) + " positional argument(s), but received " +
                             std::to_string(arguments.positional.size()) + " instead.");
  for (const auto &[name, value] : arguments.named)
    if (!use.names.contains(name)) fail(error::kSyntax, "Keyword '" + name + "' not used.");
}

void Printing::addFields(Fragments &fragments, nb::handle format, const Arguments &arguments, FormatUse &use) {
  for (nb::handle part : nb::object(nb::module_::import_("_string").attr("formatter_parser")(format))) {
    fragments.text(builder, toText(nb::object(part[0])));
    if (nb::object(part[1]).is_none()) continue;
    nb::object fieldText = part[1], specText = part[2];
    llvm::StringRef field = toText(fieldText);
    const Operand *value = nullptr;
    size_t position = use.automatic;
    if (field.empty() || !field.getAsInteger(10, position)) {
      bool isNumbered = !field.empty();
      if (use.isNumbered.value_or(isNumbered) != isNumbered)
        fail(error::kSyntax, "cannot switch between automatic field numbering and manual field specification");
      use.isNumbered = isNumbered;
      use.automatic += !isNumbered;
      use.count = std::max(use.count, position + 1);
      if (position < arguments.positional.size()) value = &arguments.positional[position];
    } else {
      auto found = llvm::find_if(arguments.named, [&](const auto &named) { return field == named.first; });
      if (found == arguments.named.end()) fail(error::kSyntax, "Keyword '" + field + "' not found.");
      use.names.insert(field);
      value = &found->second;
    }
    // A format spec may contain fields, which must be known.
    Fragments spec;
    spec.isConstant = true;
    addFields(spec, specText, arguments, use);
    nb::object conversion = part[3];
    if (value) addField(fragments, convertField(*value, conversion.is_none() ? '\0' : toText(conversion)[0]), spec.getText());
  }
}

/// Converts a format such as "%5.2f %s" to "{:5.2f} {:}".
static nb::object toBraces(nb::handle percentFormat) {
  nb::object replace = nb::module_::import_("re").attr("sub"), parts = nb::list();
  for (nb::handle part : nb::object(percentFormat.attr("split")("%%"))) {
    nb::object escaped = replace("[{}]", "\\g<0>\\g<0>", part);
    parts.attr("append")(replace("%([-+ #0]*[0-9]*(?:\\.[0-9]+)?)(?:([diuxXoeEfFgGa])|[rs])", "{:\\1\\2}", escaped));
  }
  return nb::str("%").attr("join")(parts);
}

bool Printing::addFormatted(Fragments &fragments, nb::handle at) {
  At here(context, at);
  if (kindOf(at) == NodeKind::JoinedStr) {
    addInterpolated(fragments, at);
    return true;
  }
  if (kindOf(at) == NodeKind::IfExp && syntax().isStaticCall(getAttribute(at, names().test))) {
    bool holds = conversions.isTrue(expressions().visit(getAttribute(at, names().test)));
    nb::object chosen = getAttribute(at, holds ? names().body : names().orelse);
    if (!addFormatted(fragments, chosen)) addFragments(fragments, expressions().visit(chosen), "");
    return true;
  }
  bool isPercent = kindOf(at) == NodeKind::BinOp && kindOf(getAttribute(at, names().op)) == NodeKind::Mod;
  nb::object callee = kindOf(at) == NodeKind::Call ? getAttribute(at, names().func) : nb::object();
  bool isFormat = callee && kindOf(callee) == NodeKind::Attribute && toText(getAttribute(callee, names().attr)) == "format";
  nb::object text = isPercent ? getAttribute(at, names().left) : isFormat ? getAttribute(callee, names().value) : nb::object();
  // Other expressions may have effects, so they must be visited once only.
  if (!text || (kindOf(text) != NodeKind::Constant && kindOf(text) != NodeKind::Name)) return false;
  nb::object format = conversions.toPython(expressions().visit(text));
  if (!format || !PyUnicode_Check(format.ptr())) return false;
  Arguments arguments;
  if (isFormat) {
    arguments = calls().visitArguments(at);
  } else {
    Operand operands = expressions().visit(getAttribute(at, names().right));
    auto *sequence = operands.find<Sequence>();
    arguments.positional = sequence ? sequence->items : std::vector<Operand>{operands};
  }
  addFormat(fragments, isFormat ? format : toBraces(format), arguments);
  return true;
}

void Printing::print(nb::handle at) {
  Fragments fragments;
  nb::object separator = nb::str(" "), end = nb::str("\n");
  bool isError = false;
  for (nb::handle keyword : getAttribute(at, names().keywords)) {
    nb::object name = getAttribute(keyword, names().arg);
    nb::object value = conversions.toPython(expressions().visit(getAttribute(keyword, names().value)));
    llvm::StringRef text = name.is_none() ? "**" : toText(name);
    if (text == "flush" || (value && value.is_none() && text != "**")) continue;
    if (text == "file") {
      isError = value && value.is(nb::handle(PySys_GetObject("stderr")));
      if (isError || (value && value.is(nb::handle(PySys_GetObject("stdout"))))) continue;
      fail(error::kSyntax, "print() in kernels writes to sys.stdout or sys.stderr only");
    }
    if ((text != "sep" && text != "end") || !value || !PyUnicode_Check(value.ptr()))
      fail(error::kSyntax, "print() in kernels takes the keywords sep and end, which are constant texts, and file, got '" + text + "'");
    (text == "sep" ? separator : end) = value;
  }
  bool isFirst = true;
  auto separate = [&] {
    if (!isFirst) fragments.text(builder, toText(separator));
    isFirst = false;
  };
  for (nb::handle argument : getAttribute(at, names().args)) {
    if (kindOf(argument) == NodeKind::Starred) {
      for (const Operand &item : collections().listItems(expressions().visit(getAttribute(argument, names().value)), "unpack")) {
        separate();
        addFragments(fragments, item, "");
      }
      continue;
    }
    separate();
    if (!addFormatted(fragments, argument)) addFragments(fragments, expressions().visit(argument), "");
  }
  fragments.text(builder, toText(end));
  create<ir::PrintOp>(builder.getArrayAttr(fragments.fragments), fragments.values, isError);
}

void Printing::addLabeled(Fragments &fragments, llvm::StringRef label, const Operand &value) {
  fragments.text(builder, label);
  addFragments(fragments, value, "");
}

void Printing::addList(Fragments &fragments, llvm::StringRef label, const std::vector<Operand> &values) {
  fragments.text(builder, label);
  if (values.size() != 1) fragments.text(builder, "(");
  for (size_t position = 0; position < values.size(); ++position) addLabeled(fragments, position == 0 ? "" : ", ", values[position]);
  if (values.size() != 1) fragments.text(builder, ")");
}

} // namespace qd::frontend
