// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --lanes=4 --piece-size=3 --split-input-file | FileCheck %s

// Long code is outlined into functions. The index and the local are used in several regions: they are members of a frame, and a region works
// on a copy of the local.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %frame = alloca { <4 x i32>, i32,
// CHECK: call i32 @qd_task_0_loop_outlined(ptr %frame)
// CHECK-NOT: i32 1, label
// CHECK: call i32 @qd_task_0_loop_outlined.1(ptr %frame)
// CHECK-LABEL: define internal i32 @qd_task_0_loop_outlined.1(ptr noalias %0)
// CHECK: %[[SHARED:.*]] = getelementptr {{.*}} ptr %0, i32 0, i32 0
// CHECK: %[[COPY:.*]] = alloca <4 x i32>
// CHECK: %[[VALUE:.*]] = load <4 x i32>, ptr %[[SHARED]]
// CHECK: store <4 x i32> %[[VALUE]], ptr %[[COPY]]
// CHECK: store <4 x i32> %{{.*}}, ptr %[[COPY]]
// CHECK: exit:
// CHECK: %[[LAST:.*]] = load <4 x i32>, ptr %[[COPY]]
// CHECK: store <4 x i32> %[[LAST]], ptr %[[SHARED]]
qd.kernel @local [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %local = qd.local : !qd.ref<si32>
    %square = qd.binary mul %i, %i : si32, si32 -> si32
    qd.store %square, %local : !qd.ref<si32>
    %first = qd.load %local : !qd.ref<si32>
    %sum = qd.binary add %first, %i : si32, si32 -> si32
    qd.store %sum, %local : !qd.ref<si32>
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %second = qd.load %local : !qd.ref<si32>
    qd.store %second, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A region with an early exit returns its target. Regions nest; all use the frame of the whole function.
// CHECK-LABEL: define internal i1 @qd_task_0(
// CHECK: %[[WHERE:.*]] = call i32 @qd_task_0_outlined.2(ptr %frame)
// CHECK: switch i32 %[[WHERE]], label %[[ON:.*]] [
// CHECK: i32 1, label %leave
// CHECK: [[ON]]:
// CHECK: ret i1 false
// CHECK: leave:
// CHECK: ret i1 true
// CHECK-LABEL: define internal i32 @qd_task_0_outlined(
// CHECK: br i1 %{{.*}}, label %if, label %if.end
// CHECK: ret i32 0
// CHECK: ret i32 1
// CHECK-LABEL: define internal i32 @qd_task_0_outlined.2(
// CHECK: call i32 @qd_task_0_outlined(ptr %0)
qd.kernel @early [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 1000000000 : si32
  qd.for (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %stops = qd.binary gt %value, %zero : si32, si32 -> i1
    qd.if %stops {
      qd.break
    }
    %less = qd.binary sub %value, %i : si32, si32 -> si32
    %twice = qd.binary add %less, %less : si32, si32 -> si32
    qd.store %twice, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A matrix that only one region uses is a local of that region and not in the frame.
// CHECK-LABEL: define internal i1 @qd_task_0(
// CHECK-NOT: [16 x i32]
// CHECK-LABEL: define internal i32 @qd_task_0_outlined(
// CHECK: alloca [16 x i32]
qd.kernel @matrix [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %matrix = qd.local : !qd.ref<vector<4x4xsi32>>
  %corner = qd.component %matrix[%zero, %one] : !qd.ref<vector<4x4xsi32>>, si32, si32 -> !qd.ref<si32>
  qd.store %one, %corner : !qd.ref<si32>
  %again = qd.load %corner : !qd.ref<si32>
  qd.store %again, %place : !qd.ref<si32>
}
