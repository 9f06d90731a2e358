// RUN: qd-opt %s --qd-privatize-reductions --split-input-file | FileCheck %s

// One place that all iterations add to gets an accumulator; subtracting is adding the negative.
// CHECK-LABEL: qd.kernel @sum
// CHECK: %[[ACCUMULATOR:.*]] = qd.accumulator add %{{.*}} : !qd.ref<f32>
// CHECK-NOT: qd.accumulator
// CHECK: qd.for parallel
// CHECK: qd.atomic add %[[ACCUMULATOR]], %[[VALUE:.*]] : !qd.ref<f32>
// CHECK: %[[NEGATIVE:.*]] = qd.unary neg %[[VALUE]]
// CHECK: qd.atomic add %[[ACCUMULATOR]], %[[NEGATIVE]]
qd.kernel @sum [] attributes {argument_bytes = 8 : i32, scratch_bytes = 4 : i32} {
  qd.task parallel {
    %total = qd.scratch 0 : !qd.ref<f32>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %value = qd.cast %i : si32 -> f32
      %a = qd.atomic add %total, %value : !qd.ref<f32>
      %b = qd.atomic sub %total, %value : !qd.ref<f32>
      qd.yield
    }
  }
}

// -----

// An element with constant indices is one place; two such elements are two places.
// CHECK-LABEL: qd.kernel @elements
// CHECK: %[[FIRST:.*]] = qd.element
// CHECK: %[[A:.*]] = qd.accumulator max %[[FIRST]]
// CHECK: %[[SECOND:.*]] = qd.element
// CHECK: %[[B:.*]] = qd.accumulator max %[[SECOND]]
// CHECK: qd.for parallel
// CHECK: qd.atomic max %[[A]]
// CHECK: qd.atomic max %[[B]]
// CHECK: qd.atomic max %[[A]]
qd.kernel @elements [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %c0 = qd.constant 0 : si32
      %p0 = qd.element %x[%c0] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
      %o0 = qd.atomic max %p0, %i : !qd.ref<si32>
      %c1 = qd.constant 1 : si32
      %p1 = qd.element %x[%c1] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
      %o1 = qd.atomic max %p1, %i : !qd.ref<si32>
      %c2 = qd.constant 0 : si32
      %p2 = qd.element %x[%c2] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
      %o2 = qd.atomic max %p2, %i : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// Elements whose indices depend on the iteration: a private copy of the container.
// CHECK-LABEL: qd.kernel @histogram
// CHECK: %[[COPY:.*]] = qd.private_copy add %{{.*}} : !qd.tensor<si32, [?], [], 4>
// CHECK: qd.for parallel
// CHECK: %[[BIN:.*]] = qd.element %[[COPY]]
// CHECK: qd.atomic add %[[BIN]]
qd.kernel @histogram [] attributes {argument_bytes = 32 : i32} {
  qd.task parallel {
    %keys = qd.tensor_argument "keys" at 0 position 0 : !qd.tensor<si32, [?], [], 4>
    %bins = qd.tensor_argument "bins" at 16 position 1 : !qd.tensor<si32, [?], [], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1 : si32
    %end = qd.extent %keys 0 : !qd.tensor<si32, [?], [], 4> -> si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %place = qd.element %keys[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %key = qd.load %place : !qd.ref<si32>
      %bin = qd.element %bins[%key] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic add %bin, %one : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// Not privatized: the old value is used, there are two kinds of updates, or the loop reads the place.
// CHECK-LABEL: qd.kernel @kept
// CHECK-NOT: qd.accumulator
// CHECK-NOT: qd.private_copy
qd.kernel @kept [] attributes {argument_bytes = 0 : i32, scratch_bytes = 12 : i32} {
  qd.task parallel {
    %counter = qd.scratch 0 : !qd.ref<si32>
    %mixed = qd.scratch 4 : !qd.ref<si32>
    %watched = qd.scratch 8 : !qd.ref<si32>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %ticket = qd.atomic add %counter, %i : !qd.ref<si32>
      qd.print ["ticket"](%ticket : si32)
      %a = qd.atomic add %mixed, %i : !qd.ref<si32>
      %b = qd.atomic max %mixed, %i : !qd.ref<si32>
      %c = qd.atomic add %watched, %i : !qd.ref<si32>
      %seen = qd.load %watched : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// Arrays without axes are reduced apart, and so are containers that overlap, which have one root.
// CHECK-LABEL: qd.kernel @containers
// CHECK-DAG: %[[X:.*]] = qd.tensor_argument "x"
// CHECK-DAG: %[[Y:.*]] = qd.tensor_argument "y"
// CHECK: %[[FIRST:.*]] = qd.element %[[X]][]
// CHECK: %[[A:.*]] = qd.accumulator add %[[FIRST]]
// CHECK: %[[SECOND:.*]] = qd.element %[[Y]][]
// CHECK: %[[B:.*]] = qd.accumulator add %[[SECOND]]
// CHECK: qd.for parallel
// CHECK: qd.atomic add %[[A]]
// CHECK: qd.atomic add %[[B]]
qd.kernel @containers [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [], [], 4>
    %y = qd.tensor_argument "y" at 8 position 1 : !qd.tensor<si32, [], [], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %p = qd.element %x[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
      %o = qd.atomic add %p, %i : !qd.ref<si32>
      %q = qd.element %y[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
      %r = qd.atomic add %q, %i : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// CHECK-LABEL: qd.kernel @copies
// CHECK: %[[A:.*]] = qd.private_copy add %{{.*}}
// CHECK: %[[B:.*]] = qd.private_copy add %{{.*}}
// CHECK: qd.for parallel
// CHECK: qd.element %[[A]]
// CHECK: qd.element %[[B]]
qd.kernel @copies [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [2], [4], 4>
    %y = qd.tensor_argument "y" at 8 position 1 : !qd.tensor<si32, [2], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %two = qd.constant 2 : si32
      %j = qd.binary mod %i, %two : si32, si32 -> si32
      %p = qd.element %x[%j] : !qd.tensor<si32, [2], [4], 4>, si32 -> !qd.ref<si32>
      %o = qd.atomic add %p, %i : !qd.ref<si32>
      %q = qd.element %y[%j] : !qd.tensor<si32, [2], [4], 4>, si32 -> !qd.ref<si32>
      %r = qd.atomic add %q, %i : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// Reading another array without axes is no access to the one that is updated.
// CHECK-LABEL: qd.kernel @scaled
// CHECK: %[[A:.*]] = qd.accumulator add %{{.*}}
// CHECK: qd.for parallel
// CHECK: qd.atomic add %[[A]]
qd.kernel @scaled [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [], [], 4>
    %y = qd.tensor_argument "y" at 8 position 1 : !qd.tensor<si32, [], [], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %p = qd.element %x[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
      %q = qd.element %y[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
      %value = qd.load %q : !qd.ref<si32>
      %o = qd.atomic add %p, %value : !qd.ref<si32>
      qd.yield
    }
  }
}
