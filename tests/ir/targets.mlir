// RUN: qd-opt %s --pipeline --emit=asm --target=x64 --cpu=skylake-avx512 | FileCheck %s --check-prefix=AVX512
// RUN: qd-opt %s --pipeline --emit=asm --target=x64 --cpu=haswell | FileCheck %s --check-prefix=AVX2
// RUN: qd-opt %s --pipeline --emit=asm --target=arm64 | FileCheck %s --check-prefix=NEON
// RUN: qd-opt %s --pipeline --emit=llvm --target=null | FileCheck %s --check-prefix=NULL

// A loop is as wide as the vector registers of the processor. It loads memory that it does not store to once, before the loop.
// AVX512-LABEL: qd_task_0_loop:
// AVX512: vbroadcastss {{.*}}, %zmm
// AVX512: {{^}}.LBB
// AVX512-NOT: vbroadcastss
// AVX512: vfmadd{{.*}} %zmm
// AVX2-LABEL: qd_task_0_loop:
// AVX2: vfmadd{{.*}} %ymm
// NEON-LABEL: qd_task_0_loop:
// NEON: fmla {{.*}}.4s
// NULL: define void @qd_kernel(ptr
qd.kernel @saxpy [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [65536], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [65536], [4], 4>
  %factor = qd.tensor_argument field "factor" at 16 position 2 : !qd.tensor<f32, [], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 65536 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<f32, [65536], [4], 4>, si32 -> !qd.ref<f32>
    %from = qd.element %y[%i] : !qd.tensor<f32, [65536], [4], 4>, si32 -> !qd.ref<f32>
    %place = qd.element %factor[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
    %a = qd.load %place : !qd.ref<f32>
    %u = qd.load %to : !qd.ref<f32>
    %v = qd.load %from : !qd.ref<f32>
    %product = qd.binary mul %a, %u : f32, f32 -> f32
    %sum = qd.binary add %product, %v : f32, f32 -> f32
    qd.store %sum, %to : !qd.ref<f32>
    qd.yield
  }
}
