// RUN: qd-opt %s --qd-mark-compactions --split-input-file | FileCheck %s

// Both branches store at a counter of their own; one removes elements of x in place. The copy afterwards is marked because of them.
// CHECK-LABEL: qd.func @partition
// CHECK: qd.for {{.*}} attributes {qd.lanes}
// CHECK: qd.store {{.*}} {qd.compacts} : !qd.ref<f32>
// CHECK: qd.store {{.*}} {qd.compacts} : !qd.ref<si32>
// CHECK: qd.store {{.*}} {qd.compacts} : !qd.ref<f32>
// CHECK: qd.store {{.*}} {qd.compacts} : !qd.ref<si32>
// CHECK: qd.for {{.*}} attributes {qd.lanes}
qd.func @partition(%begin: si32, %end: si32, %pivot: f32) -> si32 {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<f32, [?], [], 4>
  %one = qd.constant 1 : si32
  %left = qd.local : !qd.ref<si32>
  qd.store %begin, %left : !qd.ref<si32>
  %right = qd.local : !qd.ref<si32>
  qd.store %begin, %right : !qd.ref<si32>
  qd.for (%begin) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %key = qd.load %from : !qd.ref<f32>
    %is_less = qd.binary lt %key, %pivot : f32, f32 -> i1
    qd.if %is_less {
      %place = qd.load %left : !qd.ref<si32>
      %to = qd.element %x[%place] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
      qd.store %key, %to : !qd.ref<f32>
      %before = qd.load %left : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %left : !qd.ref<si32>
      qd.yield
    } else {
      %place = qd.load %right : !qd.ref<si32>
      %to = qd.element %y[%place] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
      qd.store %key, %to : !qd.ref<f32>
      %before = qd.load %right : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %right : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
  %last = qd.load %right : !qd.ref<si32>
  qd.for (%begin) to (%last) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %key = qd.load %from : !qd.ref<f32>
    %first = qd.load %left : !qd.ref<si32>
    %place = qd.binary add %first, %i : si32, si32 -> si32
    %to = qd.element %x[%place] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %key, %to : !qd.ref<f32>
    qd.yield
  }
  %result = qd.load %left : !qd.ref<si32>
  qd.return %result : si32
}

// -----

// The element is read after the counter's place was written, which another lane may have done.
// CHECK-LABEL: qd.kernel @late
// CHECK-NOT: qd.lanes
qd.kernel @late [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 16 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %none = qd.constant 0.0 : f32
  %count = qd.local : !qd.ref<si32>
  qd.store %zero, %count : !qd.ref<si32>
  qd.for (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.load %count : !qd.ref<si32>
    %to = qd.element %x[%place] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %none, %to : !qd.ref<f32>
    %before = qd.load %count : !qd.ref<si32>
    %after = qd.binary add %before, %one : si32, si32 -> si32
    qd.store %after, %count : !qd.ref<si32>
    %from = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %is_less = qd.binary lt %value, %none : f32, f32 -> i1
    qd.if %is_less {
      qd.yield
    }
    qd.yield
  }
}

// -----

// The counter advances by two, and under another condition than the store: neither is a place side by side.
// CHECK-LABEL: qd.kernel @others
// CHECK-NOT: qd.lanes
qd.kernel @others [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  %count = qd.local : !qd.ref<si32>
  qd.store %zero, %count : !qd.ref<si32>
  qd.for (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    %place = qd.load %count : !qd.ref<si32>
    %to = qd.element %y[%place] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    qd.store %value, %to : !qd.ref<si32>
    %before = qd.load %count : !qd.ref<si32>
    %after = qd.binary add %before, %two : si32, si32 -> si32
    qd.store %after, %count : !qd.ref<si32>
    qd.yield
  }
  qd.for (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    %place = qd.load %count : !qd.ref<si32>
    %to = qd.element %y[%place] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    qd.store %value, %to : !qd.ref<si32>
    %is_less = qd.binary lt %value, %zero : si32, si32 -> i1
    qd.if %is_less {
      %before = qd.load %count : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %count : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
