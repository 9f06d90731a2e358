// RUN: qd-opt %s --qd-normalize-exits | FileCheck %s

// The code that a continue skips is in an `if` on a flag of the iteration.
// CHECK-LABEL: qd.func @continue_skips
// CHECK: %[[LIVE:.*]] = qd.local : !qd.ref<i1>
// CHECK: qd.if %arg1 {
// CHECK: qd.store %{{.*}}, %[[LIVE]]
// CHECK-NOT: qd.continue
// CHECK: %[[GO:.*]] = qd.load %[[LIVE]]
// CHECK: qd.if %[[GO]] {
// CHECK: qd.store %{{.*}}, %arg0 : !qd.ref<f32>
qd.func @continue_skips(%place: !qd.ref<f32>, %skip: i1) {
  %zero = qd.constant 0 : si32
  %many = qd.constant 9 : si32
  qd.for (%zero) to (%many) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.if %skip {
      qd.continue
    }
    %one = qd.constant 1.0 : f32
    qd.store %one, %place : !qd.ref<f32>
    qd.yield
  }
  qd.return
}

// The only break is at the end of the loop.
// CHECK-LABEL: qd.func @break_comes_last
// CHECK: %[[BROKEN:.*]] = qd.local : !qd.ref<i1>
// CHECK: qd.for
// CHECK: qd.store %{{.*}}, %[[BROKEN]]
// CHECK: %[[DONE:.*]] = qd.load %[[BROKEN]]
// CHECK-NEXT: qd.if %[[DONE]] {
// CHECK-NEXT: qd.break
// CHECK-NEXT: } {qd.loop_exit}
// CHECK-NEXT: qd.yield
qd.func @break_comes_last(%stop: i1) {
  %zero = qd.constant 0 : si32
  %many = qd.constant 9 : si32
  qd.for (%zero) to (%many) : (si32) to (si32) {
  ^bb0(%i: si32):
    qd.if %stop {
      qd.break
    }
    qd.yield
  }
  qd.return
}

// Results are stored in locals; the function returns at its end.
// CHECK-LABEL: qd.func @early_return
// CHECK: %[[RESULT:.*]] = qd.local : !qd.ref<f32>
// CHECK: qd.store %arg1, %[[RESULT]]
// CHECK: %[[VALUE:.*]] = qd.load %[[RESULT]]
// CHECK-NEXT: qd.return %[[VALUE]] : f32
qd.func @early_return(%c: i1, %x: f32) -> f32 {
  qd.if %c {
    qd.return %x : f32
  }
  %y = qd.unary neg %x : f32 -> f32
  qd.return %y : f32
}
