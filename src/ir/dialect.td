// dialect.td: the qd dialect and its types.
#ifndef QD_DIALECT_TD
#define QD_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def QdDialect : Dialect {
  let name = "qd";
  let cppNamespace = "::qd::ir";
  let summary = "The kernel language, typed.";
  // Scalars are `si8 si16 si32 si64`, `ui8 ui16 ui32 ui64`, `i1` (u1), `f16 f32 f64`. Vectors and matrices are `vector<3xf32>` and
  // `vector<3x3xf32>`. Places are `!qd.ref<T>`; containers are `!qd.tensor<...>`.
  let useDefaultTypePrinterParser = 1;
}

def RefType : TypeDef<QdDialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "A place that holds a scalar, a vector or a matrix.";
  let parameters = (ins "::mlir::Type":$pointee);
  let assemblyFormat = "`<` $pointee `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{ return $_get(pointee.getContext(), pointee); }]>];
}

def TensorType : TypeDef<QdDialect, "Tensor"> {
  let mnemonic = "tensor";
  let summary = "A container: its element, extents, byte strides and the byte distance of an element's components.";
  // There is one extent and one stride per axis; `?` means known at launch only. No strides (`[]`): packed, row-major.
  // Indices begin at `origin`, by default at 0. `tiles` lists axis, length and jump of each tiling, as layout::Tiling.
  // `!qd.tensor<vector<3xf32>, [64], [12], 4>` is a field, `!qd.tensor<f32, [?, ?], [], 4>` an array argument of rank 2.
  let parameters = (ins "::mlir::Type":$element, ArrayRefParameter<"int64_t">:$extents, ArrayRefParameter<"int64_t">:$strides,
      "int64_t":$componentStride, OptionalArrayRefParameter<"int64_t">:$origin, OptionalArrayRefParameter<"int64_t">:$tiles);
  let assemblyFormat = [{
    `<` $element `,` custom<Dimensions>($extents) `,` custom<Dimensions>($strides) `,` $componentStride
    (`,` `from` custom<Dimensions>($origin)^)? (`tiles` custom<Dimensions>($tiles)^)? `>`
  }];
  let extraClassDeclaration = [{
    int64_t getRank() const { return getExtents().size(); }
    bool isPacked() const { return getStrides().empty(); }
    /// The lowest index of an axis.
    int64_t getFirst(int64_t axis) const { return getOrigin().empty() ? 0 : getOrigin()[axis]; }
  }];
}

def ScalarTypeConstraint : Type<CPred<"::qd::ir::isScalar($_self)">, "scalar of the kernel language">;
def ValueTypeConstraint : Type<CPred<"::qd::ir::isValue($_self)">, "scalar, vector or matrix of the kernel language">;
def IndexTypeConstraint : Type<CPred<"::qd::ir::isIntegerScalar($_self)">, "integer scalar">;
def VectorTypeConstraint : Type<CPred<"::llvm::isa<::mlir::VectorType>($_self)">, "vector or matrix">;
def AnyPlace : Type<CPred<"::llvm::isa<::qd::ir::RefType>($_self)">, "place">;
def AnyContainer : Type<CPred<"::llvm::isa<::qd::ir::TensorType>($_self)">, "container">;

#endif
