// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=znver4 --split-input-file | FileCheck %s

// Iterations of a loop without an end that is known wait for each other: two vectors at a time.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: icmp sgt <32 x i32>
qd.kernel @halve [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.load %place : !qd.ref<si32>
    %rest = qd.local : !qd.ref<si32>
    qd.store %old, %rest : !qd.ref<si32>
    %count = qd.local : !qd.ref<si32>
    qd.store %zero, %count : !qd.ref<si32>
    qd.while {
      %now = qd.load %rest : !qd.ref<si32>
      %more = qd.binary gt %now, %zero : si32, si32 -> i1
      qd.condition %more
    } do {
      %now = qd.load %rest : !qd.ref<si32>
      %half = qd.binary shr %now, %one : si32, si32 -> si32
      qd.store %half, %rest : !qd.ref<si32>
      %before = qd.load %count : !qd.ref<si32>
      %next = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %next, %count : !qd.ref<si32>
      qd.yield
    }
    %rounds = qd.load %count : !qd.ref<si32>
    qd.store %rounds, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A chain of elements: each load waits for the one before, so the lanes' loads wait together.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: call <32 x i32> @llvm.masked.gather
qd.kernel @follow [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [640], [4], 4>
  %next = qd.tensor_argument field "next" at 8 position 1 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %first = qd.load %place : !qd.ref<si32>
    %at = qd.local : !qd.ref<si32>
    qd.store %first, %at : !qd.ref<si32>
    qd.while {
      %now = qd.load %at : !qd.ref<si32>
      %more = qd.binary gt %now, %zero : si32, si32 -> i1
      qd.condition %more
    } do {
      %now = qd.load %at : !qd.ref<si32>
      %link = qd.element %next[%now] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
      %linked = qd.load %link : !qd.ref<si32>
      qd.store %linked, %at : !qd.ref<si32>
      qd.yield
    }
    %last = qd.load %at : !qd.ref<si32>
    qd.store %last, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Two scattered accesses for each link: one lane after the other.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: x i32>
qd.kernel @follow_and_add [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [640], [4], 4>
  %next = qd.tensor_argument field "next" at 8 position 1 : !qd.tensor<si32, [640], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 2 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %first = qd.load %place : !qd.ref<si32>
    %at = qd.local : !qd.ref<si32>
    qd.store %first, %at : !qd.ref<si32>
    %sum = qd.local : !qd.ref<si32>
    qd.store %zero, %sum : !qd.ref<si32>
    qd.while {
      %now = qd.load %at : !qd.ref<si32>
      %more = qd.binary gt %now, %zero : si32, si32 -> i1
      qd.condition %more
    } do {
      %now = qd.load %at : !qd.ref<si32>
      %item = qd.element %y[%now] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
      %number = qd.load %item : !qd.ref<si32>
      %before = qd.load %sum : !qd.ref<si32>
      %added = qd.binary add %before, %number : si32, si32 -> si32
      qd.store %added, %sum : !qd.ref<si32>
      %link = qd.element %next[%now] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
      %linked = qd.load %link : !qd.ref<si32>
      qd.store %linked, %at : !qd.ref<si32>
      qd.yield
    }
    %all = qd.load %sum : !qd.ref<si32>
    qd.store %all, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// The same in a function.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: x i32>
qd.kernel @call [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 640 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %first = qd.load %place : !qd.ref<si32>
    %all = qd.call @sum(%first) : (si32) -> si32
    qd.store %all, %place : !qd.ref<si32>
    qd.yield
  }
}
qd.func @sum(%first: si32) -> si32 {
  %next = qd.tensor_argument field "next" at 8 position 1 : !qd.tensor<si32, [640], [4], 4>
  %y = qd.tensor_argument field "y" at 16 position 2 : !qd.tensor<si32, [640], [4], 4>
  %zero = qd.constant 0 : si32
  %at = qd.local : !qd.ref<si32>
  qd.store %first, %at : !qd.ref<si32>
  %sum = qd.local : !qd.ref<si32>
  qd.store %zero, %sum : !qd.ref<si32>
  qd.while {
    %now = qd.load %at : !qd.ref<si32>
    %more = qd.binary gt %now, %zero : si32, si32 -> i1
    qd.condition %more
  } do {
    %now = qd.load %at : !qd.ref<si32>
    %item = qd.element %y[%now] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %number = qd.load %item : !qd.ref<si32>
    %before = qd.load %sum : !qd.ref<si32>
    %added = qd.binary add %before, %number : si32, si32 -> si32
    qd.store %added, %sum : !qd.ref<si32>
    %link = qd.element %next[%now] : !qd.tensor<si32, [640], [4], 4>, si32 -> !qd.ref<si32>
    %linked = qd.load %link : !qd.ref<si32>
    qd.store %linked, %at : !qd.ref<si32>
    qd.yield
  }
  %all = qd.load %sum : !qd.ref<si32>
  qd.return %all : si32
}
