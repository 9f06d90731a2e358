// interfaces.td: what operations on memory have in common. Passes ask these interfaces, so that they need no lists of operations.
#ifndef QD_INTERFACES_TD
#define QD_INTERFACES_TD

include "mlir/IR/OpBase.td"

// The result is a place or container that is part of another one, or a private copy of it.
def PlaceOpInterface : OpInterface<"PlaceOpInterface"> {
  let cppNamespace = "::qd::ir";
  let methods = [
    InterfaceMethod<"The place or container that the result is part of.", "::mlir::Value", "getBase", (ins), "",
                    "return $_op->getOperand(0);">,
    InterfaceMethod<"The indices that select the part, one per axis.", "::mlir::ValueRange", "getIndices", (ins), "", "return {};">,
  ];
}

// Loads, stores or updates one place, its operand `ref`. A call is no access, although it may access all places that it is given
// (listReadPlaces, listWrittenPlaces).
def MemoryAccessOpInterface : OpInterface<"MemoryAccessOpInterface"> {
  let cppNamespace = "::qd::ir";
  let methods = [
    InterfaceMethod<"The place.", "::mlir::Value", "getRef">,
    InterfaceMethod<"The value that is stored, or combined with the content; null for a load.", "::mlir::Value", "getStored">,
    InterfaceMethod<"Whether the access reads the content of the place.", "bool", "reads", (ins), "", "return true;">,
    InterfaceMethod<"Whether it is an update that may be combined with others of the same place before the place is written.", "bool",
                    "combines", (ins), "", "return false;">,
    InterfaceMethod<"Whether the result, or a derivative, depends on the content.", "bool", "needsContent", (ins), "",
                    "return $_op.reads();">,
  ];
  let extraSharedClassDeclaration = [{
    bool writes() { return bool($_op.getStored()); }
    /// Whether it reads and writes in one step.
    bool isAtomic() { return $_op.reads() && writes(); }
    /// Whether it is atomic and its result or effect depends on the order of the iterations.
    bool isExchange() { return isAtomic() && !$_op.combines(); }
  }];
}

#endif
