// RUN: qd-opt %s --pipeline --emit=asm --target=cuda | FileCheck %s --check-prefix=PTX
// RUN: qd-opt %s --pipeline --emit=asm --target=cuda --strict-math | FileCheck %s --check-prefix=PTX
// RUN: qd-opt %s --pipeline --emit=asm --target=x64 --cpu=haswell | FileCheck %s --check-prefix=X64

// Sine and cosine of one angle share what they do for large angles. A variable holds the angle, and another one is stored between them.
// A thread computes groups of four elements, and elements behind the last group.
// PTX-LABEL: .entry qd_task_0
// PTX-COUNT-2: clz.b64
// PTX-NOT: clz.b64
// Angles of two numbers do not.
// PTX-LABEL: .entry qd_task_1
// PTX-COUNT-4: clz.b64
// PTX-NOT: clz.b64
// X64-LABEL: {{^}}qd_task_0_loop:
// X64: call{{.*}}{{[bB]}}othLarge
// X64-NOT: call
// X64-LABEL: {{^}}qd_task_1_loop:
// X64: call{{.*}}ineLarge
// X64: call{{.*}}ineLarge
qd.kernel @rotate [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [640], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 1 : !qd.tensor<f32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %angle = qd.local : !qd.ref<f32>
    %result = qd.local : !qd.ref<f32>
    %a = qd.load %from : !qd.ref<f32>
    qd.store %a, %angle : !qd.ref<f32>
    %b = qd.load %angle : !qd.ref<f32>
    %s = qd.unary sin %b : f32 -> f32
    qd.store %s, %result : !qd.ref<f32>
    %c = qd.load %angle : !qd.ref<f32>
    %d = qd.unary cos %c : f32 -> f32
    %e = qd.load %result : !qd.ref<f32>
    %sum = qd.binary add %d, %e : f32, f32 -> f32
    qd.store %sum, %to : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %a = qd.load %from : !qd.ref<f32>
    %b = qd.load %to : !qd.ref<f32>
    %s = qd.unary sin %a : f32 -> f32
    %c = qd.unary cos %b : f32 -> f32
    %sum = qd.binary add %s, %c : f32, f32 -> f32
    qd.store %sum, %to : !qd.ref<f32>
    qd.yield
  }
}
