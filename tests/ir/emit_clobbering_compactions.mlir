// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=x86-64-v4 | FileCheck %s

// If the loop may change what is behind the counter, only the last vector, which is not full, has a mask.
// CHECK-LABEL: define internal i1 @qd_task_0
// CHECK: [[LOOSE:%.*]] = call <16 x i32> @llvm.experimental.vector.compress.v16i32
// CHECK: store <16 x i32> [[LOOSE]], ptr %{{.*}}, align 4
// CHECK: call void @llvm.masked.store.v16i32.p0(
qd.kernel @keep_loosely [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<si32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<si32, [?], [], 4>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %count = qd.local : !qd.ref<si32>
  qd.store %zero, %count : !qd.ref<si32>
  qd.for (%zero) to (%n) : (si32) to (si32) attributes {qd.clobbers, qd.lanes} {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %from : !qd.ref<si32>
    %is_less = qd.binary lt %value, %zero : si32, si32 -> i1
    qd.if %is_less {
      %place = qd.load %count : !qd.ref<si32>
      %to = qd.element %y[%place] : !qd.tensor<si32, [?], [], 4>, si32 -> !qd.ref<si32>
      qd.store %value, %to {qd.compacts} : !qd.ref<si32>
      %before = qd.load %count : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %count {qd.compacts} : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
