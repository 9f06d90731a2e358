// operand.cpp: construction of operands, and queries that apply to several kinds
//
// In:   the contents of an operand.
// Out:  an operand, and its type.
// Here: memory of shared kinds is allocated in this file only, because Clang 22 omits the destructors of their control blocks where
//       std::make_shared is first used in a generic lambda.
#include "frontend/operand.h"

namespace qd::frontend {

template <SharedKind Kind> Operand::Operand(Kind kind) : content(std::make_shared<Kind>(std::move(kind))) {}
template Operand::Operand(Components);
template Operand::Operand(View);
template Operand::Operand(AxisRange);
template Operand::Operand(Slice);
template Operand::Operand(Range);
template Operand::Operand(Containers);
template Operand::Operand(Sequence);
template Operand::Operand(Dictionary);
template Operand::Operand(DictView);
template Operand::Operand(Struct);
template Operand::Operand(Instance);
template Operand::Operand(Method);

mlir::Type Operand::getType() const {
  if (auto *computed = find<Computed>()) return computed->type;
  if (auto *place = find<Place>()) return place->getType();
  if (auto *argument = find<Argument>()) return argument->type;
  auto *components = find<Components>();
  return components ? components->type : mlir::Type();
}

bool Operand::isReadOnly() const {
  return visit([](auto &kind) {
    if constexpr (requires { kind.isReadOnly; })
      return kind.isReadOnly;
    else
      return std::is_same_v<decltype(kind), const Argument &>;
  });
}

} // namespace qd::frontend
