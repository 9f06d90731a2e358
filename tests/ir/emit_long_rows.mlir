// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64:x86-64-v4 --lanes=16 | FileCheck %s

// Eight of nine components of each lane are loaded at once: half a register. Two lanes fill one, and eight registers are transposed.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK-COUNT-16: load <8 x float>
// CHECK: shufflevector <8 x float> {{.*}} <16 x i32>
// CHECK: shufflevector <16 x float> {{.*}} <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21,
// CHECK: shufflevector <16 x float> {{.*}} <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8,
// CHECK: shufflevector <16 x float> {{.*}} <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12,
// CHECK: @llvm.masked.gather.v16f32
// CHECK-NOT: load <4 x float>
qd.kernel @sums [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<vector<9xf32>, [1000], [36], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [1000], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1000 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<vector<9xf32>, [1000], [36], 4>, si32 -> !qd.ref<vector<9xf32>>
    %value = qd.load %from : !qd.ref<vector<9xf32>>
    %sum = qd.reduce add %value : vector<9xf32> -> f32
    %to = qd.element %y[%i] : !qd.tensor<f32, [1000], [4], 4>, si32 -> !qd.ref<f32>
    qd.store %sum, %to : !qd.ref<f32>
    qd.yield
  }
}
