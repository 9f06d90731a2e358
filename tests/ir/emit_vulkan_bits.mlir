// RUN: qd-opt %s --pipeline --emit=spirv --target=vulkan:subgroup=8,threads=256,shared=32768 | FileCheck %s

// LLVM makes a reversal of two bits of this, which SPIR-V has not.
// CHECK: qd_task_0
qd.kernel @reversed [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<ui32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  %one = qd.constant 1 : ui32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<ui32, [64], [4], 4>, si32 -> !qd.ref<ui32>
    %value = qd.load %place : !qd.ref<ui32>
    %low = qd.binary bit_and %value, %one : ui32, ui32 -> ui32
    %raised = qd.binary shl %low, %one : ui32, ui32 -> ui32
    %rest = qd.binary shr %value, %one : ui32, ui32 -> ui32
    %high = qd.binary bit_and %rest, %one : ui32, ui32 -> ui32
    %both = qd.binary bit_or %raised, %high : ui32, ui32 -> ui32
    qd.store %both, %place : !qd.ref<ui32>
    qd.yield
  }
}
