// RUN: qd-opt %s --qd-check-races | FileCheck %s

// Plain stores to elements are claimed, component by component. So are atomic updates of the same container, with the bits of the loop's
// number flipped. Locals and serial tasks are not claimed. An exchange that stores a part of a word claims the part.
// CHECK-LABEL: qd.kernel @races
// CHECK: qd.task parallel
// CHECK: ^bb0(%[[I:.*]]: si32):
// CHECK: %[[ELEMENT:.*]] = qd.element
// CHECK: %[[ZERO:.*]] = qd.constant 0 : si32
// CHECK: %[[FIRST:.*]] = qd.component %[[ELEMENT]][%[[ZERO]]]
// CHECK: %[[SECOND:.*]] = qd.component %[[ELEMENT]]
// CHECK: qd.claim %[[FIRST]] by(%[[I]]) of 0 ["Data race: x", "[", "", [""], "]"
// CHECK: qd.claim %[[SECOND]] by(%[[I]]) of 0
// CHECK-NEXT: qd.store
// CHECK: qd.claim %{{.*}} by(%[[I]]) of -1 ["Data race: x", "[", "", [""], "]", " is updated by iteration ("
// CHECK: qd.atomic
// CHECK: qd.claim %{{.*}} part %[[BIT:.*]] : si32 by(%[[I]]) of 0 ["Data race: the element at bit ", [""], " of a word, bits", "["
// CHECK: qd.compare_exchange {{.*}} part %[[BIT]] : si32 stores
// CHECK-NOT: qd.claim
qd.kernel @races [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<2xf32>, [8], [8], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 8 : si32
    %one = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %value = qd.broadcast %one : f32 -> vector<2xf32>
      %local = qd.local : !qd.ref<vector<2xf32>>
      qd.store %value, %local : !qd.ref<vector<2xf32>>
      %place = qd.element %x[%i] : !qd.tensor<vector<2xf32>, [8], [8], 4>, si32 -> !qd.ref<vector<2xf32>>
      qd.store %value, %place : !qd.ref<vector<2xf32>>
      %old = qd.atomic add %place, %value : !qd.ref<vector<2xf32>>
      %bits = qd.tensor_argument field "bits" at 8 position 0 : !qd.tensor<si32, [8], [4], 4>
      %word = qd.element %bits[%i] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
      %before = qd.compare_exchange %word, %zero, %end part %end : si32 stores : !qd.ref<si32>, si32
      qd.yield
    }
  }
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<2xf32>, [8], [8], 4>
    %zero = qd.constant 0 : si32
    %value = qd.constant 1.0 : f32
    %place = qd.element %x[%zero] : !qd.tensor<vector<2xf32>, [8], [8], 4>, si32 -> !qd.ref<vector<2xf32>>
    %component = qd.component %place[%zero] : !qd.ref<vector<2xf32>>, si32 -> !qd.ref<f32>
    qd.store %value, %component : !qd.ref<f32>
  }
}
