// RUN: qd-opt %s --pipeline --emit=llvm --target=x64 --lanes=4 --split-input-file | FileCheck %s

// A sum has one register per lane; chunks store their sums in memory, and these are added in order.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: count:
// CHECK: fadd {{.*}}float
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %sum = alloca <4 x float>
// Their number is limited, so chunks of long loops are long, and poll.
// CHECK: strips:
// CHECK-NOT: atomicrmw
// CHECK: fadd {{.*}}<4 x float>
// CHECK: fadd {{.*}}<2 x float>
qd.kernel @sum [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [1024], [4], 4>
  %s = qd.tensor_argument field "s" at 8 position 1 : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1024 : si32
  %target = qd.element %s[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [1024], [4], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %old = qd.atomic add %target, %value : !qd.ref<f32>
    qd.yield
  }
}

// -----

// A small table that all iterations add to is privatized: plain additions, and a merge.
// CHECK-NOT: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_copies
// CHECK-NOT: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_merge
qd.kernel @histogram [] attributes {argument_bytes = 16 : i32} {
  %keys = qd.tensor_argument field "keys" at 0 position 0 : !qd.tensor<si32, [100000], [4], 4>
  %bins = qd.tensor_argument field "bins" at 8 position 1 : !qd.tensor<si32, [16], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 100000 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %keys[%i] : !qd.tensor<si32, [100000], [4], 4>, si32 -> !qd.ref<si32>
    %key = qd.load %place : !qd.ref<si32>
    %bin = qd.element %bins[%key] : !qd.tensor<si32, [16], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic add %bin, %one : !qd.ref<si32>
    qd.yield
  }
}

// -----

// An update whose old value is used stays atomic; the lanes add together.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: add <4 x i32> %{{.*}}, <i32 0, i32 1, i32 2, i32 3>
// CHECK: atomicrmw add ptr %{{.*}}, i32 4
// CHECK-NOT: atomicrmw
qd.kernel @tickets [] attributes {argument_bytes = 16 : i32} {
  %out = qd.tensor_argument field "out" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %s = qd.tensor_argument field "s" at 8 position 1 : !qd.tensor<si32, [], [], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 64 : si32
  %counter = qd.element %s[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %out[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %ticket = qd.atomic add %counter, %one : !qd.ref<si32>
    qd.store %ticket, %place : !qd.ref<si32>
    qd.yield
  }
}
