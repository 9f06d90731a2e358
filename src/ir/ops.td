// ops.td: the operations of the qd dialect. Operators are rows of builtins.def; ops with regions, memory or control are records here.
#ifndef QD_OPS_TD
#define QD_OPS_TD

include "ir/dialect.td"
include "ir/interfaces.td"
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

// `name` has the type of the value that the place `ref` holds.
class IsPointee<string name>
    : TypesMatchWith<"the " # name # " is the pointee", "ref", name, "::llvm::cast<RefType>($_self).getPointee()">;
// A predicate that may name operands, attributes and results.
class Needs<string text, string predicate> : PredOpTrait<text, CPred<predicate>>;

// One operand, one result of another type.
class ConversionOp<string mnemonic, Type from, Type to> : PureOp<mnemonic> {
  let arguments = (ins from:$operand);
  let results = (outs to:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
}

// The end of a block, without operands.
class JumpOp<string mnemonic> : QdOp<mnemonic, [Terminator]> { let assemblyFormat = "attr-dict"; }

// An access to the place `ref`. `stored`: the value that it writes, in C++; a null value for a load.
class AccessOp<string mnemonic, string stored, list<Trait> traits = []>
    : QdOp<mnemonic, !listconcat([MemoryAccessOpInterface], traits)> {
  code access = "::mlir::Value getStored() { return " # stored # "; }\n";
  let extraClassDeclaration = access;
}

// A private copy of a target that all iterations of a parallel loop update.
class PrivateOp<string mnemonic, Type target> : QdOp<mnemonic, [PlaceOpInterface, AllTypesMatch<["target", "result"]>]> {
  let arguments = (ins AtomicKindAttr:$atomicKind, target:$target);
  let results = (outs target:$result);
  let assemblyFormat = "custom<AtomicKind>($atomicKind) $target attr-dict `:` type($target)";
}

//--- Kernels, functions, tasks ---

// A kernel: what one launch runs.
// Arguments are read with `qd.argument` and `qd.tensor_argument`. `argument_bytes` is the size of the argument block.
// After `split_tasks` the body holds `qd.task` ops only, and `scratch_bytes` is the size of the values that cross tasks.
def KernelOp : QdOp<"kernel", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$argument_bytes, DefaultValuedAttr<I32Attr, "0">:$scratch_bytes,
      TypeArrayAttr:$result_types);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $result_types attr-dict-with-keyword $body";
}

// One instance of a function: a body for one combination of argument types and template arguments.
// Parameters are values, places (`!qd.ref`, by reference) and containers. `qd.return` may end any block of the body.
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
// A parallel task holds the computation of the loop's bounds, accumulators, and one `qd.for` marked `parallel`. Operations before the loop
// have no effects, so that each chunk can recompute them. A `qd.return` in a serial task ends the kernel. Tasks run in order.
def TaskOp : QdOp<"task", [SingleBlock, NoTerminator]> {
  let arguments = (ins UnitAttr:$parallel);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`parallel` $parallel^)? attr-dict-with-keyword $body";
}

// Runs its body once, and repeats it while `condition` is true at the end of the body. Its parent is a kernel or another `qd.repeat`; its
// body is split into tasks like the kernel's. `rounds`, where the body draws random numbers, counts its rounds, also over those of a
// repeat around it. After `split_tasks` both are places in the scratch block.
def RepeatOp : QdOp<"repeat", [SingleBlock, NoRegionArguments, NoTerminator,
    Needs<"the condition is a u1", "::llvm::cast<RefType>($condition.getType()).getPointee().isInteger(1)">]> {
  let arguments = (ins AnyPlace:$condition, Optional<AnyPlace>:$rounds);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `while` $condition (`counting` $rounds^)? attr-dict-with-keyword $body `:` type($condition) (`,` type($rounds)^)?
  }];
}

// Calls an instance of a function.
def CallOp : QdOp<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$arguments);
  let results = (outs Variadic<ValueTypeConstraint>:$outputs);
  let assemblyFormat = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $outputs)";
}

// Returns from the function or kernel, at any nesting depth.
def ReturnOp : QdOp<"return", [Terminator]> {
  let arguments = (ins Variadic<ValueTypeConstraint>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//--- Inputs and constants ---

// A scalar, vector or matrix argument. Its components are packed at `offset` of the argument block.
def ArgumentOp : PureOp<"argument"> {
  let arguments = (ins I32Attr:$offset);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

// A container argument: a QdTensorArgument at `offset` of the argument block. A field overlaps no other input; arrays may overlap.
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

// Applies a unary operator of builtins.def element-wise.
def UnaryOp : PureOp<"unary", [InferTypeOpAdaptor]> {
  let arguments = (ins UnaryKindAttr:$unaryKind, ValueTypeConstraint:$operand);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<UnaryKind>($unaryKind) $operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

// Applies a binary operator of builtins.def element-wise; the operands have one type (shifts: the same shape).
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

// Converts the scalar type by the rules of the language and preserves the shape.
def CastOp : ConversionOp<"cast", ValueTypeConstraint, ValueTypeConstraint>;

// Reinterprets the bits as another scalar type of the same size.
def BitCastOp : ConversionOp<"bit_cast", ValueTypeConstraint, ValueTypeConstraint>;

// A random number: floats in [0, 1), integers over their full range. The generator is counter-based: see devlib.
def RandomOp : QdOp<"random"> {
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// The number of the running thread in the pool or grid.
def ThreadIndexOp : QdOp<"thread_index"> {
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// A counter of the processor that runs the code, as i64. It is read between what stands before and behind it.
def ClockOp : QdOp<"clock"> {
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// Whether an integer add, sub, mul or shl overflows its type, element-wise.
def OverflowsOp : PureOp<"overflows"> {
  let arguments = (ins BinaryKindAttr:$binaryKind, ValueTypeConstraint:$lhs, ValueTypeConstraint:$rhs);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($binaryKind) $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

//--- Vectors and matrices ---

// Builds a vector or matrix from its components, row by row.
def VectorOp : PureOp<"vector", [Needs<"the components are those of the result",
    "::llvm::equal($components.getTypes(), ::llvm::SmallVector<::mlir::Type>(getComponentCount($result.getType()), getScalar($result.getType())))">]> {
  let arguments = (ins Variadic<ScalarTypeConstraint>:$components);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$components attr-dict `:` type($components) `->` type($result)";
}

// A vector or matrix with one value in every component.
def BroadcastOp : ConversionOp<"broadcast", ScalarTypeConstraint, VectorTypeConstraint>;

// One component, numbered row by row.
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

// Combines all components from the first to the last with a binary operator (add, mul, min, max, bit_and, bit_or).
def ReduceOp : PureOp<"reduce"> {
  let arguments = (ins BinaryKindAttr:$binaryKind, VectorTypeConstraint:$operand);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "custom<BinaryKind>($binaryKind) $operand attr-dict `:` type($operand) `->` type($result)";
}

// Matrix product. A vector is a column on the right and a row on the left. Both operands have the same scalar type.
def MatmulOp : PureOp<"matmul"> {
  let arguments = (ins VectorTypeConstraint:$lhs, VectorTypeConstraint:$rhs);
  let results = (outs VectorTypeConstraint:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}

// The transposed matrix.
def TransposeOp : ConversionOp<"transpose", VectorTypeConstraint, VectorTypeConstraint>;

//--- Places ---

// Allocates a place for a variable. Its value is undefined until the first store.
def LocalOp : QdOp<"local"> {
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

// Reads a place.
def LoadOp : AccessOp<"load", "{}", [IsPointee<"result">]> {
  let arguments = (ins AnyPlace:$ref);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "$ref attr-dict `:` type($ref)";
}

// Writes a place.
def StoreOp : AccessOp<"store", "getValue()", [IsPointee<"value">]> {
  let arguments = (ins ValueTypeConstraint:$value, AnyPlace:$ref);
  let extraClassDeclaration = access # "bool reads() { return false; }";
  let assemblyFormat = "$value `,` $ref attr-dict `:` type($ref)";
}

// The place of one component of a vector or matrix in a place, with one index per axis.
def ComponentOp : PureOp<"component", [PlaceOpInterface,
    Needs<"there is one index per axis", "int64_t($indices.size()) == getAxisCount(::llvm::cast<RefType>($ref.getType()).getPointee())">,
    TypesMatchWith<"the result is the component", "ref", "result", "RefType::get(getScalar(::llvm::cast<RefType>($_self).getPointee()))">]> {
  let arguments = (ins AnyPlace:$ref, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$ref `[` $indices `]` attr-dict `:` type($ref) `,` type($indices) `->` type($result)";
}

// The place of one element of a container. Indices start at the container's origin.
def ElementOp : PureOp<"element", [PlaceOpInterface,
    Needs<"there is one index per axis", "int64_t($indices.size()) == ::llvm::cast<TensorType>($tensor.getType()).getRank()">,
    TypesMatchWith<"the result is the element", "tensor", "result", "RefType::get(::llvm::cast<TensorType>($_self).getElement())">]> {
  let arguments = (ins AnyContainer:$tensor, Variadic<IndexTypeConstraint>:$indices);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$tensor `[` $indices `]` attr-dict `:` type($tensor) (`,` type($indices)^)? `->` type($result)";
}

// The extent of a container along an axis.
def ExtentOp : PureOp<"extent"> {
  let arguments = (ins AnyContainer:$tensor, I32Attr:$axis);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "$tensor $axis attr-dict `:` type($tensor) `->` type($result)";
}

// Reads, combines and writes a place in one step; returns the old value. Each component of a vector is updated separately.
def AtomicOp : AccessOp<"atomic", "getValue()", [IsPointee<"value">, IsPointee<"result">]> {
  let arguments = (ins AtomicKindAttr:$atomicKind, AnyPlace:$ref, ValueTypeConstraint:$value);
  let results = (outs ValueTypeConstraint:$result);
  let assemblyFormat = "custom<AtomicKind>($atomicKind) $ref `,` $value attr-dict `:` type($ref)";
  let extraClassDeclaration = access # [{
    bool isSum() { return getAtomicKind() == AtomicKind::add || getAtomicKind() == AtomicKind::sub; }
    bool combines() { return true; }
    bool needsContent() { return !isSum() || !use_empty(); }
  }];
}

// Stores `value` if the place holds `expected`, and returns the old value.
// With `part` it replaces a part of a word, whose lowest bit that is, and is the last access in the condition of a qd.while without a body:
// where no other iteration writes the word, a store does the same. `stores`: the part is written, not updated.
def CompareExchangeOp : AccessOp<"compare_exchange", "getValue()", [AllTypesMatch<["expected", "value", "result"]>]> {
  let arguments = (ins AnyPlace:$ref, ScalarTypeConstraint:$expected, ScalarTypeConstraint:$value, Optional<IndexTypeConstraint>:$part,
      UnitAttr:$stores);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = [{
    $ref `,` $expected `,` $value (`part` $part^ `:` type($part))? (`stores` $stores^)? attr-dict `:` type($ref) `,` type($result)
  }];
}

// A place in the kernel's scratch block, for a value that crosses tasks. Created by split_tasks.
def ScratchOp : PureOp<"scratch"> {
  let arguments = (ins I32Attr:$offset);
  let results = (outs AnyPlace:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
}

// A private copy of a place that all iterations of a parallel loop update.
// It precedes the loop of a parallel task. Only `qd.atomic` operations of the same kind in the loop use its result, and their results are
// unused. The backend holds it in registers, one per lane and chunk, and combines them into `target` in chunk order after the loop.
def AccumulatorOp : PrivateOp<"accumulator", AnyPlace>;

// A private copy of a small container that all iterations of a parallel loop update.
// Like `qd.accumulator`, for `qd.atomic` on elements of a container that the loop does not access otherwise. The compiled code chooses
// between private copies and atomics at run time, by the container's size and the number of iterations.
def PrivateCopyOp : PrivateOp<"private_copy", AnyContainer>;

//--- Threads of a block: iterations of one parallel loop, `block_dim` neighbors at a time ---

// A container in block memory; `number` distinguishes it from others. Its elements are undefined when the block begins.
def SharedOp : PureOp<"shared"> {
  let arguments = (ins I32Attr:$number);
  let results = (outs AnyContainer:$result);
  let assemblyFormat = "$number attr-dict `:` type($result)";
}

// Waits for all threads of the block, subgroup (`group`) or grid, and makes their writes visible. `threads`, here and below: a bit for each
// thread of the subgroup that takes part; without it all do.
def BarrierOp : QdOp<"barrier"> {
  let arguments = (ins UnitAttr:$group, UnitAttr:$grid, Optional<IndexTypeConstraint>:$threads);
  let assemblyFormat = "(`group` $group^)? (`grid` $grid^)? (`among` $threads^ `:` type($threads))? attr-dict";
}

// Orders the accesses before it and after it, as seen by the threads of the block or by all threads.
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

// The number of the block, the number of threads in a block, or the number of blocks in the loop.
def BlockOp : QdOp<"block"> {
  let arguments = (ins UnitAttr:$size, UnitAttr:$count);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "(`size` $size^)? (`count` $count^)? attr-dict `:` type($result)";
}

// The value of another thread of the subgroup. `again`: `value` is unchanged since the previous shuffle, so that no thread needs to wait.
def ShuffleOp : QdOp<"shuffle", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins ScalarTypeConstraint:$value, IndexTypeConstraint:$lane, UnitAttr:$again, Optional<IndexTypeConstraint>:$threads);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = [{
    (`again` $again^)? $value `from` $lane (`among` `(` $threads^ `:` type($threads) `)`)? attr-dict `:` type($value) `,` type($lane)
  }];
}

// The values of `lanes` neighboring threads combined, the same result on each of them. All threads of the subgroup take part.
def CombineOp : QdOp<"combine", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins AtomicKindAttr:$atomicKind, IndexTypeConstraint:$value, I32Attr:$lanes);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "custom<AtomicKind>($atomicKind) $value `over` $lanes attr-dict `:` type($value)";
}

// Forces the value to be computed here. Arithmetic that sinks below a shuffle of its operands would keep all their registers live.
def PinOp : QdOp<"pin", [AllTypesMatch<["value", "result"]>]> {
  let arguments = (ins ScalarTypeConstraint:$value);
  let results = (outs ScalarTypeConstraint:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

// One bit per thread of the subgroup.
def BallotOp : QdOp<"ballot"> {
  let arguments = (ins I1:$vote, Optional<IndexTypeConstraint>:$threads);
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "$vote (`among` `(` $threads^ `:` type($threads) `)`)? attr-dict `:` type($result)";
}

// The threads of the subgroup that are here, one bit each.
def ActiveOp : QdOp<"active"> {
  let results = (outs IndexTypeConstraint:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//--- Control: regions have one block; a block ends with yield, break, continue or return ---

// Ends a region that is left normally.
def YieldOp : JumpOp<"yield">;

// Leaves the innermost loop.
def BreakOp : JumpOp<"break">;

// Continues with the next iteration of the innermost loop.
def ContinueOp : JumpOp<"continue">;

// Runs one of two regions; the second may be empty.
def IfOp : QdOp<"if", [NoRegionArguments, SingleBlock]> {
  let arguments = (ins I1:$condition);
  let regions = (region SizedRegion<1>:$thenRegion, AnyRegion:$elseRegion);
  let assemblyFormat = "$condition $thenRegion (`else` $elseRegion^)? attr-dict";
}

// A loop over a box of integers; the last index varies fastest.
// `lower[a] <= index[a] < upper[a]` (steps: `lower + k*step`; a negative step counts down and compares with `>`). An empty box runs no
// iteration; bounds are read once. The block arguments are the indices. A loop marked `parallel` is at the top level of the kernel and its
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

// Alternates `condition` (which ends with qd.condition) and `body`. `continue` jumps to the condition.
def WhileOp : QdOp<"while", [NoRegionArguments, SingleBlock]> {
  let regions = (region SizedRegion<1>:$conditionRegion, SizedRegion<1>:$body);
  let assemblyFormat = "$conditionRegion `do` $body attr-dict";
}

// Ends the condition of a qd.while, which continues while the operand is true.
def ConditionOp : QdOp<"condition", [Terminator, HasParent<"WhileOp">]> {
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

//--- Sites: messages for the user. A fragment is a literal string, or an array of one string: the format spec of the next operand. ---

// Prints the fragments in order.
def PrintOp : QdOp<"print"> {
  let arguments = (ins ArrayAttr:$fragments, Variadic<ValueTypeConstraint>:$values, UnitAttr:$to_stderr);
  let assemblyFormat = "$fragments (`(` $values^ `:` type($values) `)`)? attr-dict";
}

// Stops the launch with the text of the fragments unless the condition holds. With `reports` it prints the text and continues. `kind` is an
// artifact::Site::Kind.
def AssertOp : QdOp<"assert"> {
  let arguments = (ins I1:$condition, I32Attr:$kind, ArrayAttr:$fragments, Variadic<ValueTypeConstraint>:$values, UnitAttr:$reports);
  let assemblyFormat = "$condition `,` $kind $fragments (`(` $values^ `:` type($values) `)`)? attr-dict";
}

// Stops the launch with the text of the fragments if another iteration of the parallel loop with number `loop` has claimed the place.
// `iteration` identifies the current iteration by its indices, `part` a part of a word by its lowest bit.
def ClaimOp : QdOp<"claim", [AttrSizedOperandSegments]> {
  let arguments = (ins AnyPlace:$ref, Variadic<IndexTypeConstraint>:$iteration, I32Attr:$loop, ArrayAttr:$fragments,
      Variadic<ValueTypeConstraint>:$values, Optional<IndexTypeConstraint>:$part);
  let assemblyFormat = [{
    $ref (`part` $part^ `:` type($part))? `by` `(` $iteration `)` `of` $loop $fragments (`(` $values^ `:` type($values) `)`)? attr-dict
    `:` type($ref) `,` type($iteration)
  }];
}

#endif
