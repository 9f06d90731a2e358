// RUN: qd-opt %s --qd-check-bounds --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-check-bounds=all=false --split-input-file | FileCheck %s --check-prefix=MARKED

// An unknown index of a field is checked.
// CHECK-LABEL: qd.kernel @field
// CHECK: %[[INDEX:.*]] = qd.argument 8 : si32
// CHECK: %[[UNSIGNED:.*]] = qd.cast %[[INDEX]] : si32 -> ui32
// CHECK: %[[SIZE:.*]] = qd.constant 4 : ui32
// CHECK: %[[GOOD:.*]] = qd.binary lt %[[UNSIGNED]], %[[SIZE]]
// CHECK: qd.assert %[[GOOD]], 2 ["Accessing field (x)", " of size (", "", [""], ")", " with indices (", "", [""], ")"](%{{.*}}, %[[INDEX]] : si64, si32)
// CHECK: qd.element
qd.kernel @field [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4>
  %i = qd.argument 8 : si32
  %place = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  qd.print ["end"]
}

// -----

// The check reads the extents of an array. An index that the loop's bounds keep within its axis is not checked.
// CHECK-LABEL: qd.kernel @array
// CHECK: qd.for
// CHECK: %[[EXTENT:.*]] = qd.extent %{{.*}} 1 : !qd.tensor<f32, [?, ?], [], 4> -> si64
// CHECK: qd.cast %[[EXTENT]] : si64 -> ui64
// CHECK: %[[GOOD:.*]] = qd.binary lt
// CHECK-NOT: qd.binary bit_and
// CHECK: qd.assert %[[GOOD]], 2 ["Out of bound access to ndarray", " at arg 1"
qd.kernel @array [] attributes {argument_bytes = 28 : i32} {
  %x = qd.tensor_argument "x" at 0 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %rows = qd.extent %x 0 : !qd.tensor<f32, [?, ?], [], 4> -> si32
  qd.for (%zero) to (%rows) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i, %n] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    qd.yield
  }
}

// -----

// Nor is the index plus or minus a constant, if the loop's bounds leave room for it.
// CHECK-LABEL: qd.kernel @neighbors
// CHECK: qd.for
// CHECK-NOT: qd.assert
// CHECK: qd.print ["left"]
// CHECK: qd.assert %{{.*}}, 2 ["Out of bound access to ndarray"
// CHECK: qd.print ["too far"]
// CHECK: qd.assert %{{.*}}, 2 ["Accessing field (y)"
qd.kernel @neighbors [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument field "y" at 16 position 1 : !qd.tensor<f32, [4], [4], 4>
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  %four = qd.constant 4 : si32
  %size = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  %end = qd.binary sub %size, %one : si32, si32 -> si32
  qd.for (%one) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %left = qd.binary sub %i, %one : si32, si32 -> si32
    %right = qd.binary add %one, %i : si32, si32 -> si32
    %a = qd.element %x[%left] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %b = qd.element %x[%right] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.print ["left"]
    %far = qd.binary add %i, %two : si32, si32 -> si32
    %c = qd.element %x[%far] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.print ["too far"]
    qd.yield
  }
  qd.for (%one) to (%four) : (si32) to (si32) {
  ^body(%k: si32):
    %before = qd.binary sub %k, %one : si32, si32 -> si32
    %d = qd.element %y[%before] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    %after = qd.binary add %k, %one : si32, si32 -> si32
    %e = qd.element %y[%after] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
    qd.yield
  }
}

// -----

// Constants within bounds and the index of a loop over the field's extent need no check.
// CHECK-LABEL: qd.kernel @known
// CHECK-NOT: qd.assert
qd.kernel @known [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<2xf32>, [4], [8], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 4 : si32
  %one = qd.constant 1 : si32
  %seven = qd.constant 7 : si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<vector<2xf32>, [4], [8], 4>, si32 -> !qd.ref<vector<2xf32>>
    %component = qd.component %place[%one] : !qd.ref<vector<2xf32>>, si32 -> !qd.ref<f32>
    %half = qd.binary floor_div %i, %seven : si32, si32 -> si32
    qd.yield
  }
}

// -----

// Run-time indices of components are checked.
// CHECK-LABEL: qd.kernel @components
// CHECK: qd.assert %{{.*}}, 2 ["Out of bound access to a [2, 3] matrix"
// CHECK: qd.extract_at
qd.kernel @components [] attributes {argument_bytes = 4 : i32} {
  %i = qd.argument 0 : si32
  %matrix = qd.constant dense<1.0> : vector<2x3xf32>
  %value = qd.extract_at %matrix[%i, %i] : vector<2x3xf32>, si32, si32 -> f32
  qd.print ["end"]
}

// -----

// Indices of a field with an origin: one comparison after the origin is subtracted, none if the loop begins at the origin.
// CHECK-LABEL: qd.kernel @origin
// CHECK: %[[FIRST:.*]] = qd.constant 4294967295 : ui32
// CHECK: %[[REST:.*]] = qd.binary sub %{{.*}}, %[[FIRST]]
// CHECK: qd.binary lt %[[REST]]
// CHECK: qd.assert %{{.*}}, 2 ["Accessing field (x)", " of size (", "", [""], ")", " offset (-1)", " with indices (", "", [""], ")"]
// CHECK: qd.for
// CHECK-NOT: qd.assert
qd.kernel @origin [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4, from [-1]>
  %i = qd.argument 8 : si32
  %place = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4, from [-1]>, si32 -> !qd.ref<f32>
  %first = qd.constant -1 : si32
  %last = qd.constant 3 : si32
  qd.for (%first) to (%last) : (si32) to (si32) {
  ^bb0(%k: si32):
    %inside = qd.element %x[%k] : !qd.tensor<f32, [4], [4], 4, from [-1]>, si32 -> !qd.ref<f32>
    qd.yield
  }
}

// -----

// Outside of debug mode, only elements of sparse fields that are written are checked.
// MARKED-NOT: qd.assert
// CHECK-LABEL: qd.kernel @marked
// MARKED-LABEL: qd.kernel @marked
// MARKED: qd.tensor_argument
// MARKED-NOT: qd.assert
// MARKED: qd.element {{.*}} -> !qd.ref<f32>
// MARKED-NEXT: qd.load
// MARKED: qd.assert
// MARKED: qd.element {{.*}} {qd.checked}
// MARKED-NOT: qd.assert
qd.kernel @marked [] attributes {argument_bytes = 12 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4], [4], 4>
  %i = qd.argument 8 : si32
  %read = qd.element %x[%i] : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  %value = qd.load %read : !qd.ref<f32>
  %written = qd.element %x[%i] {qd.checked} : !qd.tensor<f32, [4], [4], 4>, si32 -> !qd.ref<f32>
  qd.store %value, %written : !qd.ref<f32>
}
