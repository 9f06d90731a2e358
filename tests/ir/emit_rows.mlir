// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=haswell --split-input-file | FileCheck %s

// The version for long rows has one lane, and lanes in the marked loop only: rounds of four vectors with a sum each, vectors, the remainder
// under a mask, and a poll after each strip. Which version runs is decided by the length of the row. Short rows are summed by one lane,
// because lanes would gather.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: icmp uge i64 %{{.*}}, 16
// CHECK: br i1 %{{.*}}, label %rows, label %rows.else
// CHECK-LABEL: define internal void @qd_task_0_rows
// CHECK: row.strip:
// CHECK: row.vector:
// CHECK: load <8 x float>, {{.*}} !alias.scope
// CHECK: row.iteration.end:
// CHECK: load <8 x float>, {{.*}} !alias.scope
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: x float>
// CHECK: attributes
qd.kernel @sums [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) attributes {qd.rows} {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) attributes {qd.rows} {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %value : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %total, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Rows of a known length have the one version.
// CHECK-NOT: rows.else
// CHECK-LABEL: define internal void @qd_task_0_rows
// CHECK: store <8 x float>
// CHECK: call void @llvm.masked.store.v8f32
// CHECK-NOT: @qd_task_0_loop
// CHECK: attributes
qd.kernel @known [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [50, 100], [400, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 50 : si32
  %columns = qd.constant 100 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%rows) : (si32) to (si32) attributes {qd.rows} {
  ^body(%i: si32):
    qd.for (%zero) to (%columns) : (si32) to (si32) attributes {qd.rows} {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [50, 100], [400, 4], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    %first = qd.element %x[%i, %zero] : !qd.tensor<f32, [50, 100], [400, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %one, %first : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Much arithmetic for each element of a short row: lanes along the parallel loop.
// CHECK-LABEL: define internal void @qd_task_0_rows
// CHECK: row.strip:
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: @llvm.masked.gather.v8f32
qd.kernel @roots [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) attributes {qd.rows} {
  ^body(%i: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) attributes {qd.rows} {
    ^body(%j: si32):
      %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %root = qd.unary sqrt %value : f32 -> f32
      %exponential = qd.unary exp %root : f32 -> f32
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %exponential : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<f32>
    %to = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    qd.store %total, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Rows of twelve elements are three vectors of four, without a mask.
// CHECK-LABEL: define internal void @qd_task_0_rows
// CHECK-COUNT-3: store <4 x float>
// CHECK-NOT: masked
// CHECK: attributes
qd.kernel @twelve [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [50, 12], [48, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 50 : si32
  %columns = qd.constant 12 : si32
  %one = qd.constant 1.0 : f32
  qd.for parallel (%zero) to (%rows) : (si32) to (si32) attributes {qd.rows} {
  ^body(%i: si32):
    qd.for (%zero) to (%columns) : (si32) to (si32) attributes {qd.rows} {
    ^body(%j: si32):
      %to = qd.element %x[%i, %j] : !qd.tensor<f32, [50, 12], [48, 4], 4>, si32, si32 -> !qd.ref<f32>
      qd.store %one, %to : !qd.ref<f32>
      qd.yield
    }
    %first = qd.element %x[%i, %zero] : !qd.tensor<f32, [50, 12], [48, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %one, %first : !qd.ref<f32>
    qd.yield
  }
}

// -----

// CHECK-LABEL: define void @qd_kernel
// Products of matrices of 4×4, as one loop: vectors of four lanes, though there are eight.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: gather
// CHECK: load <4 x float>
// CHECK-NOT: gather
// CHECK: store <4 x float>
// CHECK: attributes
qd.kernel @products [] attributes {argument_bytes = 104 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %z = qd.tensor_argument "z" at 64 position 2 : !qd.tensor<f32, [?, ?, ?], [], 4>
  %n = qd.argument 96 : si32
  %zero = qd.constant 0 : si32
  %four = qd.constant 4 : si32
  %none = qd.constant 0.0 : f32
  qd.for parallel (%zero, %zero, %zero) to (%n, %four, %four) : (si32, si32, si32) to (si32, si32, si32) {
  ^body(%p: si32, %i: si32, %j: si32):
    %sum = qd.local : !qd.ref<f32>
    qd.store %none, %sum : !qd.ref<f32>
    qd.for (%zero) to (%four) : (si32) to (si32) {
    ^body(%k: si32):
      %left = qd.element %x[%p, %i, %k] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
      %a = qd.load %left : !qd.ref<f32>
      %right = qd.element %y[%p, %k, %j] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
      %b = qd.load %right : !qd.ref<f32>
      %product = qd.binary mul %a, %b : f32, f32 -> f32
      %before = qd.load %sum : !qd.ref<f32>
      %after = qd.binary add %before, %product : f32, f32 -> f32
      qd.store %after, %sum : !qd.ref<f32>
      qd.yield
    }
    %total = qd.load %sum : !qd.ref<f32>
    %to = qd.element %z[%p, %i, %j] : !qd.tensor<f32, [?, ?, ?], [], 4>, si32, si32, si32 -> !qd.ref<f32>
    qd.store %total, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// CHECK-LABEL: define void @qd_kernel
// Short rows of a light body: a masked vector for each row is faster than indices by division, and gathers.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: udiv <8 x
// CHECK: call {{.*}}<8 x float> @llvm.masked.load.v8f32
// CHECK-NOT: udiv <8 x
qd.kernel @short [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %three = qd.constant 3 : si32
  qd.for parallel (%zero, %zero) to (%n, %three) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %double = qd.binary add %value, %value : f32, f32 -> f32
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %double, %to : !qd.ref<f32>
    qd.yield
  }
}

// -----

// CHECK-LABEL: define void @qd_kernel
// With more work for each element, vectors are filled from several rows.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: udiv <8 x
qd.kernel @heavy [] attributes {argument_bytes = 72 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
  %y = qd.tensor_argument "y" at 32 position 1 : !qd.tensor<f32, [?, ?], [], 4>
  %n = qd.argument 64 : si32
  %zero = qd.constant 0 : si32
  %three = qd.constant 3 : si32
  qd.for parallel (%zero, %zero) to (%n, %three) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %one = qd.unary sin %value : f32 -> f32
    %two = qd.unary exp %one : f32 -> f32
    %three_times = qd.unary cos %two : f32 -> f32
    %all = qd.unary log %three_times : f32 -> f32
    %to = qd.element %y[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %all, %to : !qd.ref<f32>
    qd.yield
  }
}
