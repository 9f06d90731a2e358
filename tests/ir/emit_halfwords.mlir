// RUN: qd-opt %s --pipeline --emit=asm --target=cuda:sm_90 | FileCheck %s

// Four lanes of 16-bit integers are added one by one: the driver adds pairs of them wrongly.
// CHECK-LABEL: .visible .entry qd_task_0(
// CHECK-NOT: s16x2
// CHECK: add.s16
// CHECK-NOT: s16x2
// CHECK: ret;
qd.kernel @count [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si16, [65536], [2], 2>
  %zero = qd.constant 0 : si32
  %end = qd.constant 65536 : si32
  %one = qd.constant 1 : si16
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si16, [65536], [2], 2>, si32 -> !qd.ref<si16>
    %number = qd.cast %i : si32 -> si16
    %next = qd.binary add %number, %one : si16, si16 -> si16
    qd.store %next, %place : !qd.ref<si16>
    qd.yield
  }
}
