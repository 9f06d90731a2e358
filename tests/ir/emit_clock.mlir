// RUN: qd-opt %s --pipeline --emit=asm --target=x64 | FileCheck %s --check-prefix=X64
// RUN: qd-opt %s --pipeline --emit=asm --target=arm64 | FileCheck %s --check-prefix=ARM64

// On arm64 LLVM calls the steady counter that of cycles, and has 0 for `llvm.readsteadycounter`.
// X64: rdtsc
// ARM64: mrs {{.*}}, CNTVCT_EL0
qd.kernel @read_clock [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si64, [], [], 8>
  %now = qd.clock : si64
  %place = qd.element %x[] : !qd.tensor<si64, [], [], 8> -> !qd.ref<si64>
  qd.store %now, %place : !qd.ref<si64>
}
