// RUN: qd-opt %s --pipeline --emit=llvm --target=emulated:minimal | FileCheck %s
// RUN: qd-opt %s --pipeline --emit=llvm --target=emulated | FileCheck %s --check-prefix=FULL

// Where atomic operations on floats are no instructions, they are loops. Integers of 32 bits, and sums of 64 bits in registers, need nothing.
// CHECK-LABEL: define void @qd_task_0(
// CHECK-NOT: atomicrmw fadd
// CHECK: cmpxchg ptr {{.*}}, i32 {{.*}}, i32 {{.*}} syncscope("device")
// CHECK: atomicrmw add ptr {{.*}}, i32
// FULL: atomicrmw fadd ptr {{.*}}, float
// FULL-NOT: cmpxchg
qd.kernel @scatter [] attributes {argument_bytes = 32 : i32} {
  %keys = qd.tensor_argument field "keys" at 0 position 0 : !qd.tensor<si32, [1024], [4], 4>
  %sums = qd.tensor_argument field "sums" at 8 position 1 : !qd.tensor<f32, [100000], [4], 4>
  %counts = qd.tensor_argument field "counts" at 16 position 2 : !qd.tensor<si32, [100000], [4], 4>
  %all = qd.tensor_argument field "all" at 24 position 3 : !qd.tensor<si64, [], [], 8>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 1024 : si32
  %part = qd.constant 0.5 : f32
  %many = qd.constant 7 : si64
  %total = qd.element %all[] : !qd.tensor<si64, [], [], 8> -> !qd.ref<si64>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %keys[%i] : !qd.tensor<si32, [1024], [4], 4>, si32 -> !qd.ref<si32>
    %key = qd.load %place : !qd.ref<si32>
    %sum = qd.element %sums[%key] : !qd.tensor<f32, [100000], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %sum, %part : !qd.ref<f32>
    %count = qd.element %counts[%key] : !qd.tensor<si32, [100000], [4], 4>, si32 -> !qd.ref<si32>
    %before = qd.atomic add %count, %one : !qd.ref<si32>
    %last = qd.atomic add %total, %many : !qd.ref<si64>
    qd.yield
  }
}
