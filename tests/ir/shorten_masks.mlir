// RUN: qd-opt %s --qd-split-tasks --emit=asm --target=x64 --cpu=znver4 | FileCheck %s

// A search in a table: the lanes that a round leaves are one comparison under the mask of the round before. A mask of those that have found
// their entry would add an exclusive or, which the next round waits for.
// CHECK: vbroadcastss
// CHECK: vcmpleps %{{zmm[0-9]+}}, %{{zmm[0-9]+}}, %[[FOUND:k[0-9]]] {%[[LIVE:k[0-9]]]}
// CHECK-NOT: kxor
// CHECK: vcmpnleps %{{zmm[0-9]+}}, %{{zmm[0-9]+}}, %[[LIVE]] {%[[LIVE]]}
// CHECK-NOT: kxor
// CHECK: jne
qd.kernel @search [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [640], [4], 4>
  %table = qd.tensor_argument field "table" at 8 position 1 : !qd.tensor<f32, [64], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 2 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %length = qd.constant 64 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [640], [4], 4>, si32 -> !qd.ref<f32>
    %wanted = qd.load %place : !qd.ref<f32>
    %found = qd.local : !qd.ref<si32>
    qd.store %zero, %found : !qd.ref<si32>
    qd.for (%zero) to (%length) : (si32) to (si32) {
    ^round(%k: si32):
      %entry = qd.element %table[%k] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
      %value = qd.load %entry : !qd.ref<f32>
      %reached = qd.binary ge %value, %wanted : f32, f32 -> i1
      qd.if %reached {
        qd.store %k, %found : !qd.ref<si32>
        qd.break
      }
      qd.yield
    }
    %result = qd.load %found : !qd.ref<si32>
    %to = qd.element %y[%i] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %result, %to : !qd.ref<si32>
    qd.yield
  }
}
