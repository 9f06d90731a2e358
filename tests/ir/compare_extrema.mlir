// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=haswell | FileCheck %s
// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=haswell --strict-math | FileCheck %s --check-prefix=STRICT
// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=arm64 | FileCheck %s --check-prefix=ARM64

// A chain of maxima waits for no test: the element is tested for NaN, not the maximum.
// CHECK: vmaxss %[[NEW:xmm[0-9]+]],
// CHECK-NEXT: vcmpunordss %[[NEW]], %[[NEW]],
// STRICT: vmaxss {{.*}}, %[[MAX:xmm[0-9]+]]
// STRICT: vcmpunordss %[[MAX]], %[[MAX]],
// ARM64: fmaxnm
qd.kernel @find_greatest [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  %one = qd.constant 1 : si32
  %first = qd.element %x[%zero] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
  %greatest = qd.local : !qd.ref<f32>
  %start = qd.load %first : !qd.ref<f32>
  qd.store %start, %greatest : !qd.ref<f32>
  qd.for (%one) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %new = qd.load %place : !qd.ref<f32>
    %old = qd.load %greatest : !qd.ref<f32>
    %max = qd.binary max %old, %new : f32, f32 -> f32
    qd.store %max, %greatest : !qd.ref<f32>
    qd.yield
  }
  %found = qd.load %greatest : !qd.ref<f32>
  qd.store %found, %first : !qd.ref<f32>
}
