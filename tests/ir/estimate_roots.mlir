// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=znver4 | FileCheck %s
// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=znver4 --strict-math | FileCheck %s --check-prefix=STRICT
// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=haswell | FileCheck %s --check-prefix=STRICT

// A quotient by a square root: the processor's estimate and two Newton steps.
// CHECK: vrsqrt14pd
// CHECK-NOT: vdivpd
// STRICT: vsqrtpd
// STRICT: vdivpd
qd.kernel @normalize [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f64, [640], [8], 8>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f64, [640], [8], 8>, si32 -> !qd.ref<f64>
    %old = qd.load %place : !qd.ref<f64>
    %one = qd.constant 1.0 : f64
    %root = qd.unary sqrt %old : f64 -> f64
    %inverse = qd.binary div %one, %root : f64, f64 -> f64
    qd.store %inverse, %place : !qd.ref<f64>
    qd.yield
  }
}
