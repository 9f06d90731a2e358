// RUN: qd-opt %s --emit=llvm --target=x64 --cpu=haswell --split-input-file | FileCheck %s

// 64 iterations with 1,024 updates each are worth private copies of 1,024 elements. The loop along the row runs in lanes.
// CHECK-NOT: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_copies
// CHECK: row.strip:
// CHECK: fadd {{.*}}<8 x float>
// CHECK: store <8 x float>
// CHECK-NOT: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_merge
// CHECK-NOT: define internal void @qd_task_0_loop
qd.kernel @columns [] attributes {argument_bytes = 16 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64, 1024], [4096, 4], 4>
    %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [1024], [4], 4>
    %zero = qd.constant 0 : si32
    %rows = qd.constant 64 : si32
    %columns = qd.constant 1024 : si32
    %copy = qd.private_copy add %y : !qd.tensor<f32, [1024], [4], 4>
    qd.for parallel (%zero) to (%rows) : (si32) to (si32) attributes {qd.rows} {
    ^body(%i: si32):
      qd.for (%zero) to (%columns) : (si32) to (si32) attributes {qd.rows} {
      ^inner(%j: si32):
        %from = qd.element %x[%i, %j] : !qd.tensor<f32, [64, 1024], [4096, 4], 4>, si32, si32 -> !qd.ref<f32>
        %value = qd.load %from : !qd.ref<f32>
        %to = qd.element %copy[%j] : !qd.tensor<f32, [1024], [4], 4>, si32 -> !qd.ref<f32>
        %old = qd.atomic add %to, %value : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
  }
}

// -----

// With lengths of a launch, rows run in lanes if they are long and copies pay. Otherwise lanes are along the outer loop.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: icmp uge i64 %{{.*}}, 16
// CHECK: br i1 %{{.*}}, label %rows, label %rows.else
// CHECK: rows.else:
// CHECK: br i1 %{{.*}}, label %copies, label %copies.else
// CHECK-LABEL: define internal void @qd_task_0_copies
// CHECK: row.strip:
// CHECK-NOT: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: row.strip:
// CHECK: atomicrmw
// CHECK-LABEL: define internal void @qd_task_0_copies.
// CHECK-NOT: row.strip:
// CHECK-NOT: atomicrmw
qd.kernel @lengths [] attributes {argument_bytes = 40 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?, ?], [], 4>
    %y = qd.tensor_argument "y" at 24 position 1 : !qd.tensor<f32, [?], [], 4>
    %zero = qd.constant 0 : si32
    %rows = qd.extent %x 0 : !qd.tensor<f32, [?, ?], [], 4> -> si32
    %columns = qd.extent %x 1 : !qd.tensor<f32, [?, ?], [], 4> -> si32
    %copy = qd.private_copy add %y : !qd.tensor<f32, [?], [], 4>
    qd.for parallel (%zero) to (%rows) : (si32) to (si32) attributes {qd.rows} {
    ^body(%i: si32):
      qd.for (%zero) to (%columns) : (si32) to (si32) attributes {qd.rows} {
      ^inner(%j: si32):
        %from = qd.element %x[%i, %j] : !qd.tensor<f32, [?, ?], [], 4>, si32, si32 -> !qd.ref<f32>
        %value = qd.load %from : !qd.ref<f32>
        %to = qd.element %copy[%j] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
        %old = qd.atomic add %to, %value : !qd.ref<f32>
        qd.yield
      }
      qd.yield
    }
  }
}
