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

// -----

// A function that is called once, in one that is inlined often: there would be ten copies of its updates, each for several lanes. The
// functions around it are inlined.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: @qd_func_mark_if_new
// CHECK-COUNT-10: call {{.*}}@qd_func_mark_x4_l1
// CHECK-NOT: @qd_func_mark_if_new
// CHECK-LABEL: define internal {{.*}}@qd_func_mark_x4_l1
qd.func @mark(%n0: si32) {
  %bits = qd.tensor_argument field "bits" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %one = qd.constant 1 : si32
  %e0 = qd.element %bits[%n0] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %old0 = qd.atomic bit_or %e0, %one : !qd.ref<si32>
  %n1 = qd.binary sub %n0, %one : si32, si32 -> si32
  %e1 = qd.element %bits[%n1] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %old1 = qd.atomic bit_or %e1, %one : !qd.ref<si32>
  %n2 = qd.binary sub %n1, %one : si32, si32 -> si32
  %e2 = qd.element %bits[%n2] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %old2 = qd.atomic bit_or %e2, %one : !qd.ref<si32>
  %n3 = qd.binary sub %n2, %one : si32, si32 -> si32
  %e3 = qd.element %bits[%n3] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %old3 = qd.atomic bit_or %e3, %one : !qd.ref<si32>
  %n4 = qd.binary sub %n3, %one : si32, si32 -> si32
  qd.return
}
qd.func @mark_if_new(%n: si32) {
  %bits = qd.tensor_argument field "bits" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %place = qd.element %bits[%n] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
  %old = qd.load %place : !qd.ref<si32>
  %new = qd.binary eq %old, %zero : si32, si32 -> i1
  qd.if %new {
    qd.call @mark(%n) : (si32) -> ()
    qd.yield
  }
  qd.return
}
qd.kernel @neighbors [] attributes {argument_bytes = 8 : i32} {
  %four = qd.constant 4 : si32
  %end = qd.constant 54 : si32
  qd.for parallel (%four) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %c0 = qd.constant 0 : si32
    %at0 = qd.binary add %i, %c0 : si32, si32 -> si32
    %c1 = qd.constant 1 : si32
    %at1 = qd.binary add %i, %c1 : si32, si32 -> si32
    %c2 = qd.constant 2 : si32
    %at2 = qd.binary add %i, %c2 : si32, si32 -> si32
    %c3 = qd.constant 3 : si32
    %at3 = qd.binary add %i, %c3 : si32, si32 -> si32
    %c4 = qd.constant 4 : si32
    %at4 = qd.binary add %i, %c4 : si32, si32 -> si32
    %c5 = qd.constant 5 : si32
    %at5 = qd.binary add %i, %c5 : si32, si32 -> si32
    %c6 = qd.constant 6 : si32
    %at6 = qd.binary add %i, %c6 : si32, si32 -> si32
    %c7 = qd.constant 7 : si32
    %at7 = qd.binary add %i, %c7 : si32, si32 -> si32
    %c8 = qd.constant 8 : si32
    %at8 = qd.binary add %i, %c8 : si32, si32 -> si32
    %c9 = qd.constant 9 : si32
    %at9 = qd.binary add %i, %c9 : si32, si32 -> si32
    qd.call @mark_if_new(%at0) : (si32) -> ()
    qd.call @mark_if_new(%at1) : (si32) -> ()
    qd.call @mark_if_new(%at2) : (si32) -> ()
    qd.call @mark_if_new(%at3) : (si32) -> ()
    qd.call @mark_if_new(%at4) : (si32) -> ()
    qd.call @mark_if_new(%at5) : (si32) -> ()
    qd.call @mark_if_new(%at6) : (si32) -> ()
    qd.call @mark_if_new(%at7) : (si32) -> ()
    qd.call @mark_if_new(%at8) : (si32) -> ()
    qd.call @mark_if_new(%at9) : (si32) -> ()
    qd.yield
  }
}
