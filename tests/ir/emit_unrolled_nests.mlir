// RUN: qd-opt %s --pipeline --emit=asm --target=cuda | FileCheck %s

// A nest of constant total length is unrolled as a whole, also loops without an iteration: the vector that it indexes is in registers.
// CHECK-LABEL: .entry qd_task_0
// CHECK-NOT: .local
// The nest of the second task is too long for that.
// CHECK-LABEL: .entry qd_task_1
// CHECK: .local
qd.kernel @sums [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [640, 16], [64, 4], 4>
  %zero = qd.constant 0 : si32
  %few = qd.constant 9 : si32
  %many = qd.constant 90 : si32
  %end = qd.constant 640 : si32
  %last = qd.constant 8 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %v = qd.local : !qd.ref<vector<16xf32>>
    qd.for (%zero) to (%few) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [640, 16], [64, 4], 4>, si32, si32 -> !qd.ref<f32>
      %a = qd.load %from : !qd.ref<f32>
      %to = qd.component %v[%j] : !qd.ref<vector<16xf32>>, si32 -> !qd.ref<f32>
      qd.store %a, %to : !qd.ref<f32>
      qd.for (%zero) to (%j) : (si32) to (si32) {
      ^body(%k: si32):
        %other = qd.component %v[%k] : !qd.ref<vector<16xf32>>, si32 -> !qd.ref<f32>
        %b = qd.load %other : !qd.ref<f32>
        %c = qd.load %to : !qd.ref<f32>
        %d = qd.binary add %b, %c : f32, f32 -> f32
        qd.store %d, %to : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
    %sum = qd.component %v[%last] : !qd.ref<vector<16xf32>>, si32 -> !qd.ref<f32>
    %value = qd.load %sum : !qd.ref<f32>
    %out = qd.element %x[%i, %zero] : !qd.tensor<f32, [640, 16], [64, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %value, %out : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %v = qd.local : !qd.ref<vector<99xf32>>
    qd.for (%zero) to (%many) : (si32) to (si32) {
    ^body(%j: si32):
      %to = qd.component %v[%j] : !qd.ref<vector<99xf32>>, si32 -> !qd.ref<f32>
      qd.for (%zero) to (%j) : (si32) to (si32) {
      ^body(%k: si32):
        %other = qd.component %v[%k] : !qd.ref<vector<99xf32>>, si32 -> !qd.ref<f32>
        %b = qd.load %other : !qd.ref<f32>
        %c = qd.load %to : !qd.ref<f32>
        %d = qd.binary add %b, %c : f32, f32 -> f32
        qd.store %d, %to : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
    %sum = qd.component %v[%last] : !qd.ref<vector<99xf32>>, si32 -> !qd.ref<f32>
    %value = qd.load %sum : !qd.ref<f32>
    %out = qd.element %x[%i, %zero] : !qd.tensor<f32, [640, 16], [64, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %value, %out : !qd.ref<f32>
    qd.yield
  }
}
