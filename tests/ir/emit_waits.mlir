// RUN: qd-opt %s --pipeline --emit=llvm --target=x64 --split-input-file | FileCheck %s

// A loop that looks at one place until another thread changes it calls the runtime now and then.
// CHECK-LABEL: define {{.*}}@qd_task_0
// CHECK: volatile i32
// CHECK: urem i32 %{{.*}}, 64
qd.kernel @wait [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  qd.while {
    %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %now = qd.load %place {qd.volatile} : !qd.ref<si32>
    %more = qd.binary eq %now, %zero : si32, si32 -> i1
    qd.condition %more
  } do {
    qd.yield
  }
}

// -----

// One that goes from place to place works.
// CHECK-LABEL: define {{.*}}@qd_task_0
// CHECK: volatile i32
// CHECK-NOT: urem i32
qd.kernel @search [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %at = qd.local : !qd.ref<si32>
  qd.store %zero, %at : !qd.ref<si32>
  qd.while {
    %i = qd.load %at : !qd.ref<si32>
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %now = qd.load %place {qd.volatile} : !qd.ref<si32>
    %more = qd.binary eq %now, %zero : si32, si32 -> i1
    qd.condition %more
  } do {
    %i = qd.load %at : !qd.ref<si32>
    %next = qd.binary add %i, %one : si32, si32 -> si32
    qd.store %next, %at : !qd.ref<si32>
    qd.yield
  }
}

// -----

// So does one that changes other memory.
// CHECK-LABEL: define {{.*}}@qd_task_0
// CHECK: volatile i32
// CHECK-NOT: urem i32
qd.kernel @count [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  qd.while {
    %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %now = qd.load %place {qd.volatile} : !qd.ref<si32>
    %more = qd.binary eq %now, %zero : si32, si32 -> i1
    qd.condition %more
  } do {
    %other = qd.element %x[%one] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %before = qd.load %other : !qd.ref<si32>
    %next = qd.binary add %before, %one : si32, si32 -> si32
    qd.store %next, %other : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A lock.
// CHECK-LABEL: define {{.*}}@qd_task_0
// CHECK: cmpxchg
// CHECK: urem i32 %{{.*}}, 64
qd.kernel @lock [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 4 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 1 : i32} {
  ^body(%i: si32):
    qd.while {
      %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      %old = qd.compare_exchange %place, %zero, %one : !qd.ref<si32>, si32
      %more = qd.binary eq %old, %one : si32, si32 -> i1
      qd.condition %more
    } do {
      qd.yield
    }
    %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %zero, %place : !qd.ref<si32>
    qd.yield
  }
}
