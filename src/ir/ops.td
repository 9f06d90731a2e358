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
class PureOp<string mnemonic, list<Trait> traits = []> : QdOp<mnemonic, !listconcat([Pure], traits)>;

// A row of builtins.def, as the enum of its kind.
class KindAttr<string kind> : Attr<CPred<"::llvm::isa<::mlir::IntegerAttr>($_self)">, "row of builtins.def"> {
  let storageType = "::mlir::IntegerAttr";
  let returnType = "::qd::ir::" # kind;
  let convertFromStorage = "static_cast<::qd::ir::" # kind # ">($_self.getInt())";
  let constBuilderCall = "$_builder.getI32IntegerAttr(static_cast<int32_t>($0))";
}
def UnaryKindAttr : KindAttr<"UnaryKind">;
def BinaryKindAttr : KindAttr<"BinaryKind">;
def AtomicKindAttr : KindAttr<"AtomicKind">;

// `name` is of the type that the place `ref` holds.
class IsPointee<string name>
    : TypesMatchWith<"the " # name # " is the pointee", "ref", name, "::llvm::cast<RefType>($_self).getPointee()">;
// A predicate on operands, attributes and results, by name.
class Needs<string text, string predicate> : PredOpTrait<text, CPred<predicate>>;

// One operand becomes one result of another type.
class ConversionOp<string mnemonic, Type from, Type to> : PureOp<mnemonic> {
  let arguments = (ins from:$operand);
  let results = (outs to:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

// The end of a block, without operands.
class JumpOp<string mnemonic> : QdOp<mnemonic, [Terminator]> { let assemblyFormat = "attr-dict"; }

// A private stand-in for what all iterations of a parallel loop combine into.
class StandInOp<string mnemonic, Type target> : QdOp<mnemonic, [AllTypesMatch<["target", "result"]>]> {
  let arguments = (ins AtomicKindAttr:$atomicKind, target:$target);
  let results = (outs target:$result);
  let assemblyFormat = "custom<AtomicKind>($atomicKind) $target attr-dict `:` type($target)";
}

//--- Kernels, functions, tasks ---

// A kernel: what one launch runs.
// Arguments are read with `qd.argument` and `qd.tensor_argument`. `argument_bytes` is the size of the argument block.
// After `split_tasks` the body holds `qd.task` ops only, and `scratch_bytes` is the size of what crosses tasks.
def KernelOp : QdOp<"kernel", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$argument_bytes, DefaultValuedAttr<I32Attr, "0">:$scratch_bytes,
      TypeArrayAttr:$result_types);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $result_types attr-dict-with-keyword $body";
}

// One instance of a function: a body for one combination of argument types and template arguments.
// Parameters are values, places (`!qd.ref`, by reference) and containers. `qd.return` may stand at the end of any block inside.
def FuncOp : QdOp<"func", [IsolatedFromAbove, FunctionOpInterface]> {
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

// One step of a kernel: serial statements, or one parallel loop.
// A parallel task holds what computes the loop's bounds, accumulators, and one `qd.for` marked `parallel`. What stands before the loop
// has no effects, so that each chunk may compute it again. A `qd.return` in a serial task ends the kernel. Tasks run in order.
def TaskOp : QdOp<"task", [SingleBlock, NoTerminator]> {
  let arguments = (ins UnitAttr:$parallel);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`parallel` $parallel^)? attr-dict-with-keyword $body";
}

// Runs what it holds once, and again while `condition` is true after a round. Stands in a kernel or in another `qd.repeat`; like the
// kernel's, its body is cut into tasks. After `split_tasks` the condition is a place in the scratch block.
def RepeatOp : QdOp<"repeat", [SingleBlock, NoRegionArguments, NoTerminator,
    Needs<"the condition is a u1", "::llvm::cast<RefType>($condition.getType()).getPointee().isInteger(1)">]> {
  let arguments = (ins AnyPlace:$condition);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`while` $condition attr-dict-with-keyword $body `:` type($condition)";
}

// Calls an instance of a function.
def CallOp : QdOp<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$arguments);
  let results = (outs Variadic<ValueTypeConstraint>:$outputs);
  let assemblyFormat = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $outputs)";
}

// Leaves the function, or the kernel, from wherever it stands.
def ReturnOp : QdOp<"return", [Terminator]> {
  let arguments = (ins Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//--- Inputs and constants ---

// A scalar, vector or matrix argument: its components lie packed at `offset` of the argument block.
def ArgumentOp : PureOp<"argument"> {
  let arguments = (ins I32Attr:$offset);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

// A container argument: a QdTensorArgument lies at `offset`. A field has memory of its own; arrays may overlap.
def TensorArgumentOp : PureOp<"tensor_argument"> {
  let arguments = (ins I32Attr:$offset, StrAttr:$name, I32Attr:$position, UnitAttr:$field);
  let results = (outs AnyContainer:$result);
  let assemblyFormat = "(`field` $field^)? $name `at` $offset `position` $position attr-dict `:` type($result)";
}

// A typed constant; vectors and matrices are dense.
def ConstantOp : PureOp<"constant", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$value attr-dict";
}

//--- Operators: rows of builtins.def ---

// A unary row of builtins.def, element-wise.
def UnaryOp : PureOp<"unary", [InferTypeOpAdaptor]> {
  let arguments = (ins UnaryKindAttr:$unaryKind, ValueTypeConstraint:$operand);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<UnaryKind>($unaryKind) $operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

// A binary row of builtins.def, element-wise; the operands have one type (shifts: the same shape).
def BinaryOp : PureOp<"binary", [InferTypeOpAdaptor]> {
  let arguments = (ins BinaryKindAttr:$binaryKind, ValueTypeConstraint:$lhs, ValueTypeConstraint:$rhs);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($binaryKind) $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

// One of two values; a vector condition chooses component by component.
def SelectOp : PureOp<"select", [AllTypesMatch<["trueValue", "falseValue", "result"]>]> {
  let arguments = (ins ValueTypeConstraint:$condition, ValueTypeConstraint:$trueValue, ValueTypeConstraint:$falseValue);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$condition `,` $trueValue `,` $falseValue attr-dict `:` type($condition) `,` type($result)";
}

// x * y + z, rounded once.
def FmaOp : PureOp<"fma", [AllTypesMatch<["x", "y", "z", "result"]>]> {
  let arguments = (ins ValueTypeConstraint:$x, ValueTypeConstraint:$y, ValueTypeConstraint:$z);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$x `,` $y `,` $z attr-dict `:` type($result)";
}

// Converts the scalar type as the language says; the shape stays.
def CastOp : ConversionOp<"cast", ValueTypeConstraint, ValueTypeConstraint>;

// Reads the same bits as another scalar type of the same size.
def BitCastOp : ConversionOp<"bit_cast", ValueTypeConstraint, ValueTypeConstraint>;

// A random number: floats in [0, 1), integers over their full range. Counter-based: see devlib.
def RandomOp : QdOp<"random"> {
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// The number of the thread that runs: of the pool, or of the grid.
def ThreadIndexOp : QdOp<"thread_index"> {
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// Whether an integer add, sub, mul or shl leaves the range of its type, element-wise.
def OverflowsOp : PureOp<"overflows"> {
  let arguments = (ins BinaryKindAttr:$binaryKind, ValueTypeConstraint:$lhs, ValueTypeConstraint:$rhs);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($binaryKind) $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

//--- Vectors and matrices ---

// A vector or matrix of its components, row by row.
def VectorOp : PureOp<"vector", [Needs<"the components are those of the result",
    "::llvm::equal($components.getTypes(), ::llvm::SmallVector<::mlir::Type>(getComponentCount($result.getType()), getScalar($result.getType())))">]> {
  let arguments = (ins Variadic<ScalarTypeConstraint>:$components);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$components attr-dict `:` type($components) `->` type($result)";
}

// A vector or matrix with one value in every component.
def BroadcastOp : ConversionOp<"broadcast", ScalarTypeConstraint, VectorTypeConstraint>;

// One component, counted row by row.
def ExtractOp : PureOp<"extract", [Needs<"the component is in the operand", "int64_t(getComponent()) < getComponentCount($operand.getType())">]> {
  let arguments = (ins VectorTypeConstraint:$operand, I32Attr:$component);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$operand $component attr-dict `:` type($operand) `->` type($result)";
}

// One component at run-time indices (one per axis of the vector or matrix).
def ExtractAtOp : PureOp<"extract_at"> {
  let arguments = (ins VectorTypeConstraint:$operand, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$operand `[` $indices `]` attr-dict `:` type($operand) `,` type($indices) `->` type($result)";
}

// All components combined from the first to the last with a binary row (add, mul, min, max, bit_and, bit_or).
def ReduceOp : PureOp<"reduce"> {
  let arguments = (ins BinaryKindAttr:$binaryKind, VectorTypeConstraint:$operand);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($binaryKind) $operand attr-dict `:` type($operand) `->` type($result)";
}

// Matrix product; a vector on the right is a column, on the left a row. Both sides have one scalar type.
def MatmulOp : PureOp<"matmul"> {
  let arguments = (ins VectorTypeConstraint:$lhs, VectorTypeConstraint:$rhs);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

// The transposed matrix.
def TransposeOp : ConversionOp<"transpose", VectorTypeConstraint, VectorTypeConstraint>;

//--- Places ---

// A new place for a variable; its value is undefined until the first store.
def LocalOp : QdOp<"local"> {
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// Reads a place.
def LoadOp : QdOp<"load", [IsPointee<"result">]> {
  let arguments = (ins AnyPlace:$ref);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$ref attr-dict `:` type($ref)";
}

// Writes a place.
def StoreOp : QdOp<"store", [IsPointee<"value">]> {
  let arguments = (ins ValueTypeConstraint:$value, AnyPlace:$ref);
  let assemblyFormat = "$value `,` $ref attr-dict `:` type($ref)";
}

// The place of one component of a place that holds a vector or matrix: indices, one per axis.
def ComponentOp : PureOp<"component", [
    Needs<"there is one index per axis", "int64_t($indices.size()) == getAxisCount(::llvm::cast<RefType>($ref.getType()).getPointee())">,
    TypesMatchWith<"the result is the component", "ref", "result", "RefType::get(getScalar(::llvm::cast<RefType>($_self).getPointee()))">]> {
  let arguments = (ins AnyPlace:$ref, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$ref `[` $indices `]` attr-dict `:` type($ref) `,` type($indices) `->` type($result)";
}

// The place of one element of a container. Indices start at the container's origin.
def ElementOp : PureOp<"element", [
    Needs<"there is one index per axis", "int64_t($indices.size()) == ::llvm::cast<TensorType>($tensor.getType()).getRank()">,
    TypesMatchWith<"the result is the element", "tensor", "result", "RefType::get(::llvm::cast<TensorType>($_self).getElement())">]> {
  let arguments = (ins AnyContainer:$tensor, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$tensor `[` $indices `]` attr-dict `:` type($tensor) (`,` type($indices)^)? `->` type($result)";
}

// How many elements a container has along an axis.
def ExtentOp : PureOp<"extent"> {
  let arguments = (ins AnyContainer:$tensor, I32Attr:$axis);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "$tensor $axis attr-dict `:` type($tensor) `->` type($result)";
}

// Reads, combines and writes a place in one step; gives the old value. Vectors: component by component, each on its own.
def AtomicOp : QdOp<"atomic", [IsPointee<"value">, IsPointee<"result">]> {
  let arguments = (ins AtomicKindAttr:$atomicKind, AnyPlace:$ref, ValueTypeConstraint:$value);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<AtomicKind>($atomicKind) $ref `,` $value attr-dict `:` type($ref)";
}

// Stores `value` where the place holds `expected`; gives the old value.
def CompareExchangeOp : QdOp<"compare_exchange", [AllTypesMatch<["expected", "value", "result"]>]> {
  let arguments = (ins AnyPlace:$ref, ScalarTypeConstraint:$expected, ScalarTypeConstraint:$value);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$ref `,` $expected `,` $value attr-dict `:` type($ref) `,` type($result)";
}

// A place in the kernel's scratch block: what crosses tasks. Made by split_tasks.
def ScratchOp : PureOp<"scratch"> {
  let arguments = (ins I32Attr:$offset);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

// A private stand-in for a place that all iterations of a parallel loop combine into.
// Stands in a parallel task before its loop; the result is used by `qd.atomic` of the same kind inside the loop only, whose results are
// unused. The backend keeps it in registers, one per lane and chunk, and combines them into `target` in chunk order when the loop is done.
def AccumulatorOp : StandInOp<"accumulator", AnyPlace>;

// A private stand-in for a small container that all iterations of a parallel loop combine into.
// Like `qd.accumulator`, for `qd.atomic` on elements of a container that the loop does not touch otherwise. The backend decides at run
// time between private copies and atomics, by the container's size and the number of iterations.
def PrivateCopyOp : StandInOp<"private_copy", AnyContainer>;

//--- Threads of a block: iterations of one parallel loop, `block_dim` neighbors at a time ---

// A container that the threads of a block share; `number` tells it from others. It holds anything when the block begins.
def SharedOp : PureOp<"shared"> {
  let arguments = (ins I32Attr:$number);
  let results = (outs AnyContainer:$result);
  let assemblyFormat = "$number attr-dict `:` type($result)";
}

// Waits for all threads of the block, of the group of 32, or of the grid, and sees what they have written.
def BarrierOp : QdOp<"barrier"> {
  let arguments = (ins UnitAttr:$group, UnitAttr:$grid);
  let assemblyFormat = "(`group` $group^)? (`grid` $grid^)? attr-dict";
}

// Orders the accesses before it and after it: for the threads of the block, or for everybody.
def FenceOp : QdOp<"fence"> {
  let arguments = (ins UnitAttr:$block);
  let assemblyFormat = "(`block` $block^)? attr-dict";
}

// The number of the thread in its block, or in the launch of the loop.
def ThreadOp : QdOp<"thread"> {
  let arguments = (ins UnitAttr:$global);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "(`global` $global^)? attr-dict `:` type($result)";
}

// The number of the block, the threads of a block, or the blocks of the loop.
def BlockOp : QdOp<"block"> {
  let arguments = (ins UnitAttr:$size, UnitAttr:$count);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "(`size` $size^)? (`count` $count^)? attr-dict `:` type($result)";
}

// The value that another thread of the group of 32 gives. All of the group take part. `again`: the value is that of the shuffle before, for
// which nobody has to wait any more.
def ShuffleOp : QdOp<"shuffle", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins ScalarTypeConstraint:$value, IndexTypeConstraint:$lane, UnitAttr:$again);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "(`again` $again^)? $value `from` $lane attr-dict `:` type($value) `,` type($lane)";
}

// The value, computed where the op stands: arithmetic that sinks below what it shuffles would keep the registers of all its operands.
def PinOp : QdOp<"pin", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins ScalarTypeConstraint:$value);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

// A bit for each thread of the group of 32. All of the group take part.
def BallotOp : QdOp<"ballot"> {
  let arguments = (ins I1:$vote);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "$vote attr-dict `:` type($result)";
}

//--- Control: regions have one block; a block ends with yield, break, continue or return ---

// The end of a region that is left in the ordinary way.
def YieldOp : JumpOp<"yield">;

// Leaves the innermost loop.
def BreakOp : JumpOp<"break">;

// Goes on with the next iteration of the innermost loop.
def ContinueOp : JumpOp<"continue">;

// Runs one of two regions; the second may be empty.
def IfOp : QdOp<"if", [NoRegionArguments, SingleBlock]> {
  let arguments = (ins I1:$condition);
  let regions = (region SizedRegion<1>:$thenRegion, AnyRegion:$elseRegion);
  let assemblyFormat = "$condition $thenRegion (`else` $elseRegion^)? attr-dict";
}

// A loop over a box of integers, the last index fastest.
// `lower[a] <= index[a] < upper[a]` (steps: `lower + k*step`; a negative step counts down and compares with `>`). An empty box runs no
// iteration; bounds are read once. The block arguments are the indices. A loop marked `parallel` stands at the top of the kernel and its
// iterations are independent. `break` leaves the whole box.
def ForOp : QdOp<"for", [SingleBlock, AttrSizedOperandSegments, Needs<"bounds, steps and indices are of the same types",
    "$lower.getTypes() == $upper.getTypes() && $lower.getTypes() == getBody().getArgumentTypes() && "
    "($step.empty() || $step.size() == $lower.size())">]> {
  let arguments = (ins Variadic<IndexTypeConstraint>:$lower, Variadic<IndexTypeConstraint>:$upper, Variadic<IndexTypeConstraint>:$step,
      UnitAttr:$parallel, OptionalAttr<I32Attr>:$block_dim, OptionalAttr<I32Attr>:$max_threads, OptionalAttr<StrAttr>:$name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`parallel` $parallel^)? ` ` `(` $lower `)` `to` ` ` `(` $upper `)` (`step` ` ` `(` $step^ `)`)?
    `:` `(` type($lower) `)` `to` ` ` `(` type($upper) `)` (`step` ` ` `(` type($step)^ `)`)? attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{ unsigned getRank() { return getLower().size(); } }];
}

// Runs `condition` (ends with qd.condition), then `body`, again and again. `continue` goes to the condition.
def WhileOp : QdOp<"while", [NoRegionArguments, SingleBlock]> {
  let regions = (region SizedRegion<1>:$conditionRegion, SizedRegion<1>:$body);
  let assemblyFormat = "$conditionRegion `do` $body attr-dict";
}

// The end of a while's condition: goes on while it is true.
def ConditionOp : QdOp<"condition", [Terminator, HasParent<"WhileOp">]> {
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

//--- Sites: texts for the user. A fragment is a literal string, or an array of one string: the format spec of the next operand. ---

// Prints fragments in turn.
def PrintOp : QdOp<"print"> {
  let arguments = (ins ArrayAttr:$fragments, Variadic<ValueTypeConstraint>:$values, UnitAttr:$to_stderr);
  let assemblyFormat = "$fragments (`(` $values^ `:` type($values) `)`)? attr-dict";
}

// Stops the launch with the text of the fragments unless the condition holds; with `reports` it prints the text and goes on. `kind` is a
// value of artifact::Site::Kind.
def AssertOp : QdOp<"assert"> {
  let arguments = (ins I1:$condition, I32Attr:$kind, ArrayAttr:$fragments, Variadic<ValueTypeConstraint>:$values, UnitAttr:$reports);
  let assemblyFormat = "$condition `,` $kind $fragments (`(` $values^ `:` type($values) `)`)? attr-dict";
}

// Stops the launch with the text of the fragments when another iteration of the parallel loop with this number has claimed the place. The
// indices say which iteration this is.
def ClaimOp : QdOp<"claim", [AttrSizedOperandSegments]> {
  let arguments = (ins AnyPlace:$ref, Variadic<IndexTypeConstraint>:$iteration, I32Attr:$loop, ArrayAttr:$fragments,
      Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = [{
    $ref `by` `(` $iteration `)` `of` $loop $fragments (`(` $values^ `:` type($values) `)`)? attr-dict `:` type($ref) `,` type($iteration)
  }];
}

#endif
