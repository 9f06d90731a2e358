// RUN: qd-opt %s --pipeline --debug-checks --emit=llvm --target=x64 --lanes=4 --split-input-file | FileCheck %s

// A small function, or one that is called once, is inlined. An early return masks off its lanes.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %live.function = alloca <4 x i1>
// CHECK-NOT: call {{.*}}@qd_func
qd.func @early(%x: si32) -> si32 {
  %zero = qd.constant 0 : si32
  %negative = qd.binary lt %x, %zero : si32, si32 -> i1
  qd.if %negative {
    qd.return %zero : si32
  }
  %double = qd.binary add %x, %x : si32, si32 -> si32
  qd.return %double : si32
}
qd.kernel @in_place [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.load %place : !qd.ref<si32>
    %new = qd.call @early(%old) : (si32) -> si32
    qd.store %new, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A recursive function becomes an LLVM function; the loop that calls it gets one lane.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: call { i32 } @qd_func_factorial_x1_u
// CHECK-LABEL: define internal { i32 } @qd_func_factorial_x1_u
// CHECK: call { i32 } @qd_func_factorial_x1_u
qd.func @factorial(%n: si32) -> si32 {
  %one = qd.constant 1 : si32
  %last = qd.binary le %n, %one : si32, si32 -> i1
  qd.if %last {
    qd.return %one : si32
  }
  %less = qd.binary sub %n, %one : si32, si32 -> si32
  %rest = qd.call @factorial(%less) : (si32) -> si32
  %product = qd.binary mul %rest, %n : si32, si32 -> si32
  qd.return %product : si32
}
qd.kernel @recursive [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %new = qd.call @factorial(%i) : (si32) -> si32
    qd.store %new, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// The first lane that fails an assertion reports its own operands, and the task ends.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[FAILING:.*]] = xor <4 x i1>
// CHECK: failed:
// CHECK: call i32 @llvm.cttz.i32
// CHECK: extractelement <4 x i32>
// CHECK: call void %{{.*}}(ptr %0, i32 0, ptr %operands)
// CHECK-NEXT: ret void
qd.kernel @assertion [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %holds = qd.binary lt %value, %end : si32, si32 -> i1
    qd.assert %holds, 1 ["value ", [""]](%value : si32)
    qd.yield
  }
}
