// RUN: qd-opt %s --qd-hold-elements --split-input-file | FileCheck %s

// A component that is read after its store, and another one that a branch stores. Only these two go back. The array shares no memory with
// the other one.
// CHECK-LABEL: qd.kernel @own
// CHECK-SAME: qd.unaliased = array<i32: 0>
// CHECK: ^bb0(%[[I:.*]]: si32):
// CHECK: %[[LOCAL:.*]] = qd.local : !qd.ref<vector<3xf32>>
// CHECK: %[[FROM:.*]] = qd.element %{{.*}}[%[[I]]]
// CHECK: %[[OLD:.*]] = qd.load %[[FROM]]
// CHECK: qd.store %[[OLD]], %[[LOCAL]]
// CHECK-NOT: qd.element
// CHECK: qd.if
// CHECK-NOT: qd.element
// CHECK: %[[TO:.*]] = qd.element %{{.*}}[%[[I]]]
// CHECK-COUNT-2: qd.component %[[TO]]
// CHECK-NOT: qd.component
// CHECK: qd.yield
qd.kernel @own [] attributes {argument_bytes = 56 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<vector<3xf32>, [?], [], 4>
    %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
    %n = qd.argument 24 : si32
    %zero = qd.constant 0 : si32
    %one = qd.constant 1 : si32
    %half = qd.constant 0.5 : f32
    qd.for parallel (%zero) to (%n) : (si32) to (si32) {
    ^body(%i: si32):
      %a = qd.element %x[%i] : !qd.tensor<vector<3xf32>, [?], [], 4>, si32 -> !qd.ref<vector<3xf32>>
      %first = qd.component %a[%zero] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
      qd.store %half, %first : !qd.ref<f32>
      %b = qd.element %x[%i] : !qd.tensor<vector<3xf32>, [?], [], 4>, si32 -> !qd.ref<vector<3xf32>>
      %again = qd.component %b[%zero] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
      %value = qd.load %again : !qd.ref<f32>
      %less = qd.binary lt %value, %half : f32, f32 -> i1
      qd.if %less {
        %c = qd.element %x[%i] : !qd.tensor<vector<3xf32>, [?], [], 4>, si32 -> !qd.ref<vector<3xf32>>
        %second = qd.component %c[%one] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
        qd.store %value, %second : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
    qd.yield
  }
}

// -----

// Not every iteration stores the element: memory that none of them accesses may be out of range.
// CHECK-LABEL: qd.kernel @sometimes
// CHECK-NOT: qd.local
qd.kernel @sometimes [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 100 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %last = qd.constant 64 : si32
      %is_inside = qd.binary lt %i, %last : si32, si32 -> i1
      qd.if %is_inside {
        %a = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
        qd.store %i, %a : !qd.ref<si32>
        %again = qd.load %a : !qd.ref<si32>
        qd.store %again, %a : !qd.ref<si32>
        qd.yield
      }
      qd.yield
    }
    qd.yield
  }
}

// -----

// Other iterations read the element, or it differs from round to round of a loop, or the iteration may end before the last store.
// CHECK-LABEL: qd.kernel @others
// CHECK-NOT: qd.local
qd.kernel @others [] attributes {argument_bytes = 24 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<si32, [64, 8], [32, 4], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1 : si32
    %end = qd.constant 60 : si32
    %eight = qd.constant 8 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %a = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      qd.store %i, %a : !qd.ref<si32>
      %again = qd.load %a : !qd.ref<si32>
      %next = qd.binary add %i, %one : si32, si32 -> si32
      %b = qd.element %x[%next] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      qd.store %again, %b : !qd.ref<si32>
      qd.for (%zero) to (%eight) : (si32) to (si32) {
      ^body(%j: si32):
        %c = qd.element %y[%i, %j] : !qd.tensor<si32, [64, 8], [32, 4], 4>, si32, si32 -> !qd.ref<si32>
        qd.store %j, %c : !qd.ref<si32>
        %round = qd.load %c : !qd.ref<si32>
        qd.store %round, %c : !qd.ref<si32>
        qd.yield
      }
      qd.yield
    }
    qd.yield
  }
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 64 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %a = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      qd.store %i, %a : !qd.ref<si32>
      %again = qd.load %a : !qd.ref<si32>
      %few = qd.binary lt %again, %zero : si32, si32 -> i1
      qd.if %few {
        qd.continue
      }
      qd.store %zero, %a : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
