// ops.td: the operations of the qd dialect. Operators are rows of builtins.def; what has regions, memory or control is a record here.
#ifndef QD_OPS_TD
#define QD_OPS_TD

include "ir/dialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class QdOp<string mnemonic, list<Trait> traits = []> : Op<QdDialect, mnemonic, traits>;

//--- Kernels, functions, tasks ---

def KernelOp : QdOp<"kernel", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let summary = "A kernel: what one launch runs.";
  let description = [{
    Arguments are read with `qd.argument` and `qd.tensor_argument`. `argument_bytes` is the size of the argument block.
    After `split_tasks` the body holds `qd.task` ops only, and `scratch_bytes` is the size of what crosses tasks.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$argument_bytes, DefaultValuedAttr<I32Attr, "0">:$scratch_bytes,
      TypeArrayAttr:$result_types);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $result_types attr-dict-with-keyword $body";
}

def FuncOp : QdOp<"func", [IsolatedFromAbove, FunctionOpInterface]> {
  let summary = "One instance of a function: a body for one combination of argument types and template arguments.";
  let description = [{
    Parameters are values, places (`!qd.ref`, by reference) and containers. `qd.return` may stand at the end of any block inside.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<StrAttr>:$sym_visibility,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def TaskOp : QdOp<"task", [SingleBlock, NoTerminator]> {
  let summary = "One step of a kernel: serial statements, or one parallel loop.";
  let description = [{
    A parallel task holds what computes the loop's bounds, accumulators, and one `qd.for` marked `parallel`. What stands before the loop
    has no effects, so that each chunk may compute it again. A `qd.return` in a serial task ends the kernel. Tasks run in order.
  }];
  let arguments = (ins UnitAttr:$parallel);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`parallel` $parallel^)? attr-dict-with-keyword $body";
}

def CallOp : QdOp<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Calls an instance of a function.";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$arguments);
  let results = (outs Variadic<ValueTypeConstraint>:$outputs);
  let assemblyFormat = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $outputs)";
}

def ReturnOp : QdOp<"return", [Terminator]> {
  let summary = "Leaves the function, or the kernel, from wherever it stands.";
  let arguments = (ins Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//--- Inputs and constants ---

def ArgumentOp : QdOp<"argument", [Pure]> {
  let summary = "A scalar, vector or matrix argument: its components lie packed at `offset` of the argument block.";
  let arguments = (ins I32Attr:$offset);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

def TensorArgumentOp : QdOp<"tensor_argument", [Pure]> {
  let summary = "A container argument: a QdTensorArgument lies at `offset`. A field has memory of its own; arrays may overlap.";
  let arguments = (ins I32Attr:$offset, StrAttr:$name, I32Attr:$position, UnitAttr:$field);
  let results = (outs AnyContainer:$result);
  let assemblyFormat = "(`field` $field^)? $name `at` $offset `position` $position attr-dict `:` type($result)";
}

def ConstantOp : QdOp<"constant", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "A typed constant; vectors and matrices are dense.";
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$value attr-dict";
  let builders = [OpBuilder<(ins "::mlir::TypedAttr":$value), [{ build($_builder, $_state, value.getType(), value); }]>];
  let hasVerifier = 1;
}

//--- Operators: rows of builtins.def ---

def UnaryOp : QdOp<"unary", [Pure]> {
  let summary = "A unary row of builtins.def, element-wise.";
  let arguments = (ins I32Attr:$kind, ValueTypeConstraint:$operand);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<UnaryKind>($kind) $operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::qd::ir::UnaryKind":$kind, "::mlir::Value":$operand)>];
  let extraClassDeclaration = [{ ::qd::ir::UnaryKind getUnaryKind() { return static_cast<::qd::ir::UnaryKind>(getKind()); } }];
}

def BinaryOp : QdOp<"binary", [Pure]> {
  let summary = "A binary row of builtins.def, element-wise; the operands have one type (shifts: the same shape).";
  let arguments = (ins I32Attr:$kind, ValueTypeConstraint:$lhs, ValueTypeConstraint:$rhs);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($kind) $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::qd::ir::BinaryKind":$kind, "::mlir::Value":$lhs, "::mlir::Value":$rhs)>];
  let extraClassDeclaration = [{ ::qd::ir::BinaryKind getBinaryKind() { return static_cast<::qd::ir::BinaryKind>(getKind()); } }];
}

def SelectOp : QdOp<"select", [Pure, AllTypesMatch<["trueValue", "falseValue", "result"]>]> {
  let summary = "One of two values; a vector condition chooses component by component.";
  let arguments = (ins ValueTypeConstraint:$condition, ValueTypeConstraint:$trueValue, ValueTypeConstraint:$falseValue);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$condition `,` $trueValue `,` $falseValue attr-dict `:` type($condition) `,` type($result)";
}

def CastOp : QdOp<"cast", [Pure]> {
  let summary = "Converts the scalar type as the language says (spec 1 S2.5); the shape stays.";
  let arguments = (ins ValueTypeConstraint:$operand);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def BitCastOp : QdOp<"bit_cast", [Pure]> {
  let summary = "Reads the same bits as another scalar type of the same size.";
  let arguments = (ins ValueTypeConstraint:$operand);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def RandomOp : QdOp<"random"> {
  let summary = "A random number: floats in [0, 1), integers over their full range. Counter-based: see devlib.";
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//--- Vectors and matrices ---

def VectorOp : QdOp<"vector", [Pure]> {
  let summary = "A vector or matrix of its components, row by row.";
  let arguments = (ins Variadic<ScalarTypeConstraint>:$components);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$components attr-dict `:` type($components) `->` type($result)";
  let hasVerifier = 1;
}

def BroadcastOp : QdOp<"broadcast", [Pure]> {
  let summary = "A vector or matrix with one value in every component.";
  let arguments = (ins ScalarTypeConstraint:$operand);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

def ExtractOp : QdOp<"extract", [Pure]> {
  let summary = "One component, counted row by row.";
  let arguments = (ins VectorTypeConstraint:$operand, I32Attr:$component);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$operand $component attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def ExtractAtOp : QdOp<"extract_at", [Pure]> {
  let summary = "One component at run-time indices (one per axis of the vector or matrix).";
  let arguments = (ins VectorTypeConstraint:$operand, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$operand `[` $indices `]` attr-dict `:` type($operand) `,` type($indices) `->` type($result)";
}

def ReduceOp : QdOp<"reduce", [Pure]> {
  let summary = "All components combined from the first to the last with a binary row (add, mul, min, max, bit_and, bit_or).";
  let arguments = (ins I32Attr:$kind, VectorTypeConstraint:$operand);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($kind) $operand attr-dict `:` type($operand) `->` type($result)";
  let extraClassDeclaration = [{ ::qd::ir::BinaryKind getBinaryKind() { return static_cast<::qd::ir::BinaryKind>(getKind()); } }];
}

def MatmulOp : QdOp<"matmul", [Pure]> {
  let summary = "Matrix product; a vector on the right is a column, on the left a row. Both sides have one scalar type.";
  let arguments = (ins VectorTypeConstraint:$lhs, VectorTypeConstraint:$rhs);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

def TransposeOp : QdOp<"transpose", [Pure]> {
  let summary = "The transposed matrix.";
  let arguments = (ins VectorTypeConstraint:$operand);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

//--- Places ---

def LocalOp : QdOp<"local"> {
  let summary = "A new place for a variable; its value is undefined until the first store.";
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def LoadOp : QdOp<"load", [TypesMatchWith<"the result is the pointee", "ref", "result", "::llvm::cast<RefType>($_self).getPointee()">]> {
  let summary = "Reads a place.";
  let arguments = (ins AnyPlace:$ref);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$ref attr-dict `:` type($ref)";
}

def StoreOp : QdOp<"store", [TypesMatchWith<"the value is the pointee", "ref", "value", "::llvm::cast<RefType>($_self).getPointee()">]> {
  let summary = "Writes a place.";
  let arguments = (ins ValueTypeConstraint:$value, AnyPlace:$ref);
  let assemblyFormat = "$value `,` $ref attr-dict `:` type($ref)";
}

def ComponentOp : QdOp<"component", [Pure]> {
  let summary = "The place of one component of a place that holds a vector or matrix: indices, one per axis.";
  let arguments = (ins AnyPlace:$ref, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$ref `[` $indices `]` attr-dict `:` type($ref) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def ElementOp : QdOp<"element", [Pure]> {
  let summary = "The place of one element of a container. Indices start at 0: the frontend has subtracted a field's offset.";
  let arguments = (ins AnyContainer:$tensor, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$tensor `[` $indices `]` attr-dict `:` type($tensor) (`,` type($indices)^)? `->` type($result)";
  let hasVerifier = 1;
}

def ExtentOp : QdOp<"extent", [Pure]> {
  let summary = "How many elements a container has along an axis.";
  let arguments = (ins AnyContainer:$tensor, I32Attr:$axis);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "$tensor $axis attr-dict `:` type($tensor) `->` type($result)";
}

def AtomicOp : QdOp<"atomic", [TypesMatchWith<"the value is the pointee", "ref", "value", "::llvm::cast<RefType>($_self).getPointee()">,
                               TypesMatchWith<"the result is the pointee", "ref", "result", "::llvm::cast<RefType>($_self).getPointee()">]> {
  let summary = "Reads, combines and writes a place in one step; gives the old value. Vectors: component by component, each on its own.";
  let arguments = (ins I32Attr:$kind, AnyPlace:$ref, ValueTypeConstraint:$value);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<AtomicKind>($kind) $ref `,` $value attr-dict `:` type($ref)";
  let builders = [OpBuilder<(ins "::qd::ir::AtomicKind":$kind, "::mlir::Value":$ref, "::mlir::Value":$value)>];
  let extraClassDeclaration = [{ ::qd::ir::AtomicKind getAtomicKind() { return static_cast<::qd::ir::AtomicKind>(getKind()); } }];
}

def CompareExchangeOp : QdOp<"compare_exchange", [AllTypesMatch<["expected", "value", "result"]>]> {
  let summary = "Stores `value` where the place holds `expected`; gives the old value.";
  let arguments = (ins AnyPlace:$ref, ScalarTypeConstraint:$expected, ScalarTypeConstraint:$value);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$ref `,` $expected `,` $value attr-dict `:` type($ref) `,` type($result)";
}

def ScratchOp : QdOp<"scratch", [Pure]> {
  let summary = "A place in the kernel's scratch block: what crosses tasks. Made by split_tasks.";
  let arguments = (ins I32Attr:$offset);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

def AccumulatorOp : QdOp<"accumulator", [AllTypesMatch<["target", "result"]>]> {
  let summary = "A private stand-in for a place that all iterations of a parallel loop combine into.";
  let description = [{
    Stands in a parallel task before its loop; the result is used by `qd.atomic` of the same kind inside the loop only, whose results are
    unused. The backend keeps it in registers, one per lane and chunk, and combines them into `target` in chunk order when the loop is done.
  }];
  let arguments = (ins I32Attr:$kind, AnyPlace:$target);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "custom<AtomicKind>($kind) $target attr-dict `:` type($target)";
  let extraClassDeclaration = [{ ::qd::ir::AtomicKind getAtomicKind() { return static_cast<::qd::ir::AtomicKind>(getKind()); } }];
}

def PrivateCopyOp : QdOp<"private_copy", [AllTypesMatch<["target", "result"]>]> {
  let summary = "A private stand-in for a small container that all iterations of a parallel loop combine into.";
  let description = [{
    Like `qd.accumulator`, for `qd.atomic` on elements of a container that the loop does not touch otherwise. The backend decides at run
    time between private copies and atomics, by the container's size and the number of iterations.
  }];
  let arguments = (ins I32Attr:$kind, AnyContainer:$target);
  let results = (outs AnyContainer:$result);
  let assemblyFormat = "custom<AtomicKind>($kind) $target attr-dict `:` type($target)";
  let extraClassDeclaration = [{ ::qd::ir::AtomicKind getAtomicKind() { return static_cast<::qd::ir::AtomicKind>(getKind()); } }];
}

//--- Control: regions have one block; a block ends with yield, break, continue or return ---

def YieldOp : QdOp<"yield", [Terminator]> {
  let summary = "The end of a region that is left in the ordinary way.";
  let assemblyFormat = "attr-dict";
}

def BreakOp : QdOp<"break", [Terminator]> {
  let summary = "Leaves the innermost loop.";
  let assemblyFormat = "attr-dict";
}

def ContinueOp : QdOp<"continue", [Terminator]> {
  let summary = "Goes on with the next iteration of the innermost loop.";
  let assemblyFormat = "attr-dict";
}

def IfOp : QdOp<"if", [NoRegionArguments, SingleBlock]> {
  let summary = "Runs one of two regions; the second may be empty.";
  let arguments = (ins I1:$condition);
  let regions = (region SizedRegion<1>:$thenRegion, AnyRegion:$elseRegion);
  let assemblyFormat = "$condition $thenRegion (`else` $elseRegion^)? attr-dict";
}

def ForOp : QdOp<"for", [SingleBlock, AttrSizedOperandSegments]> {
  let summary = "A loop over a box of integers, the last index fastest.";
  let description = [{
    `lower[a] <= index[a] < upper[a]` (steps: `lower + k*step`; a negative step counts down and compares with `>`). An empty box runs no
    iteration; bounds are read once. The block arguments are the indices. A loop marked `parallel` stands at the top of the kernel and its
    iterations are independent. `break` leaves the whole box.
  }];
  let arguments = (ins Variadic<IndexTypeConstraint>:$lower, Variadic<IndexTypeConstraint>:$upper, Variadic<IndexTypeConstraint>:$step,
      UnitAttr:$parallel, OptionalAttr<I32Attr>:$block_dim, OptionalAttr<I32Attr>:$max_threads, OptionalAttr<StrAttr>:$name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`parallel` $parallel^)? ` ` `(` $lower `)` `to` ` ` `(` $upper `)` (`step` ` ` `(` $step^ `)`)?
    `:` `(` type($lower) `)` `to` ` ` `(` type($upper) `)` (`step` ` ` `(` type($step)^ `)`)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{ unsigned getRank() { return getLower().size(); } }];
}

def WhileOp : QdOp<"while", [NoRegionArguments, SingleBlock]> {
  let summary = "Runs `condition` (ends with qd.condition), then `body`, again and again. `continue` goes to the condition.";
  let regions = (region SizedRegion<1>:$conditionRegion, SizedRegion<1>:$body);
  let assemblyFormat = "$conditionRegion `do` $body attr-dict";
}

def ConditionOp : QdOp<"condition", [Terminator, HasParent<"WhileOp">]> {
  let summary = "The end of a while's condition: goes on while it is true.";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

//--- Sites: texts for the user. A piece is a literal string, or an array of one string: the format spec of the next operand. ---

def PrintOp : QdOp<"print"> {
  let summary = "Prints pieces in turn.";
  let arguments = (ins ArrayAttr:$pieces, Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = "$pieces (`(` $values^ `:` type($values) `)`)? attr-dict";
}

def AssertOp : QdOp<"assert"> {
  let summary = "Stops the launch with the text of the pieces unless the condition holds. `kind` is a value of artifact::Site::Kind.";
  let arguments = (ins I1:$condition, I32Attr:$kind, ArrayAttr:$pieces, Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = "$condition `,` $kind $pieces (`(` $values^ `:` type($values) `)`)? attr-dict";
}

#endif
