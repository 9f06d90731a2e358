// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=znver4 --split-input-file | FileCheck %s

// Running sums along rows: one lane takes as long as lanes that gather, however far the rows lie apart.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: x float>
qd.kernel @sums [] attributes {argument_bytes = 56 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 24 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 48 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      %to = qd.element %y[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %after, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A product for each step takes longer: lanes, unless the rows of both are a multiple of 2048 bytes apart.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: urem i64 %{{.*}}, 2048
// CHECK: br i1 %{{.*}}, label %rows, label %rows.else
// CHECK-LABEL: define internal void @qd_task_0_lane
// CHECK-NOT: x float>
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: masked.gather.v16f32
qd.kernel @products [] attributes {argument_bytes = 56 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 24 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 48 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary mul %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      %to = qd.element %y[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %after, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// The rows of fields are known to be apart or not: one version.
// CHECK-NOT: rows.else
// CHECK-LABEL: define internal void @qd_task_0_lane
// CHECK-NOT: x float>
// CHECK-NOT: @qd_task_0_loop
// CHECK: attributes
qd.kernel @field [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [100, 1024], [4096, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 100 : si32
  %columns = qd.constant 1024 : si32
  %none = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%rows) : (si32) to (si32) {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%columns) : (si32) to (si32) {
    ^body(%j: si32):
      %place = qd.element %x[%i, %j] : !qd.tensor<f32, [100, 1024], [4096, 4], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %place : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary mul %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.store %after, %place : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Each element waits for the one before, which lanes hide, unless only every second one is written.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: masked.gather.v16f32
// CHECK-LABEL: define internal void @qd_task_1_loop
// CHECK-NOT: x float>
qd.kernel @neighbors [] attributes {argument_bytes = 32 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 24 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%one) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %last = qd.binary sub %j, %one : si32, si32 -> si32
      %from = qd.element %x[%i, %last] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%one) to (%n) : (si32) to (si32) {
    ^body(%j: si32):
      %sum = qd.binary add %i, %j : si32, si32 -> si32
      %rest = qd.binary mod %sum, %two : si32, si32 -> si32
      %isOwn = qd.binary eq %rest, %zero : si32, si32 -> i1
      qd.if %isOwn {
        %last = qd.binary sub %j, %one : si32, si32 -> si32
        %from = qd.element %x[%i, %last] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
        %value = qd.load %from : !qd.ref<f32>
        %to = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
        qd.store %value, %to : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
    qd.yield
  }
}
