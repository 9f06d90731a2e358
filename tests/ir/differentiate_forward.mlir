// RUN: qd-opt %s --qd-differentiate-forward | FileCheck %s

// Tangents stand behind values; a function takes and gives those of what is active.
// CHECK-LABEL: qd.kernel @apply
// CHECK-DAG: qd.tensor_argument field "y.dual" at 24
// CHECK-DAG: qd.tensor_argument field "x.dual" at 16
// CHECK: %[[V:.*]] = qd.load
// CHECK: %[[D:.*]] = qd.load
// CHECK: %[[C:.*]]:2 = qd.call @square(%[[V]], %[[D]]) : (f32, f32) -> (f32, f32)
// CHECK: qd.store %[[C]]#0
// CHECK: qd.store %[[C]]#1
qd.kernel @apply [] attributes {argument_bytes = 32 : i32, qd.derivative = "forward"} {
  %x = qd.tensor_argument field "x" at 0 position 0 {qd.companion = [16 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 {qd.companion = [24 : i32, !qd.tensor<f32, [], [], 4>, true]} : !qd.tensor<f32, [], [], 4>
  %from = qd.element %x[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  %v = qd.load %from : !qd.ref<f32>
  %w = qd.call @square(%v) : (f32) -> f32
  %to = qd.element %y[] : !qd.tensor<f32, [], [], 4> -> !qd.ref<f32>
  qd.store %w, %to : !qd.ref<f32>
}

// CHECK-LABEL: qd.func @square(%arg0: f32, %arg1: f32) -> (f32, f32)
// CHECK: qd.return %{{.*}}, %{{.*}} : f32, f32
qd.func @square(%x: f32) -> f32 {
  %y = qd.binary mul %x, %x : f32, f32 -> f32
  qd.return %y : f32
}
