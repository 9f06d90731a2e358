// RUN: qd-opt %s --qd-demote-atomics --split-input-file | FileCheck %s

// An element that belongs to one iteration is updated without atomics, if all updates have the same shift.
// CHECK-LABEL: qd.kernel @own_element
// CHECK: %[[ONE:.*]] = qd.load %[[PLACE:.*]] : !qd.ref<f32>
// CHECK: %[[SUM:.*]] = qd.binary add %[[ONE]], %{{.*}}
// CHECK: qd.store %[[SUM]], %[[PLACE]]
// CHECK-NOT: qd.atomic
qd.kernel @own_element [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8, 4], [16, 4], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1 : si32
    %end = qd.constant 4 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero, %zero) to (%end, %end) : (si32, si32) to (si32, si32) {
    ^body(%i: si32, %j: si32):
      %below = qd.binary add %i, %one : si32, si32 -> si32
      %place = qd.element %x[%below, %j] : !qd.tensor<f32, [8, 4], [16, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.atomic add %place, %value : !qd.ref<f32>
      %again = qd.atomic max %place, %old : !qd.ref<f32>
      qd.yield
    }
  }
}

// -----

// Updates of neighboring elements keep the atomics: two iterations update one element.
// CHECK-LABEL: qd.kernel @neighbors
// CHECK: qd.atomic add
// CHECK: qd.atomic sub
qd.kernel @neighbors [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %one = qd.constant 1 : si32
    %end = qd.constant 4 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %here = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      %old = qd.atomic add %here, %value : !qd.ref<f32>
      %next = qd.binary add %i, %one : si32, si32 -> si32
      %there = qd.element %x[%next] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      %other = qd.atomic sub %there, %value : !qd.ref<f32>
      qd.yield
    }
  }
}

// -----

// An element that is selected by only one of two loop indices keeps the atomics.
// CHECK-LABEL: qd.kernel @rows
// CHECK: qd.atomic add
qd.kernel @rows [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero, %zero) to (%end, %end) : (si32, si32) to (si32, si32) {
    ^body(%i: si32, %j: si32):
      %place = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      %old = qd.atomic add %place, %value : !qd.ref<f32>
      qd.yield
    }
  }
}

// -----

// The atomics stay if a called function updates the same container.
// CHECK-LABEL: qd.kernel @update_out_of_sight
// CHECK: qd.atomic add
qd.func @update(%value: f32) {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
  %zero = qd.constant 0 : si32
  %place = qd.element %x[%zero] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
  %old = qd.atomic add %place, %value : !qd.ref<f32>
  qd.return
}
qd.kernel @update_out_of_sight [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [8], [4], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %place = qd.element %x[%i] : !qd.tensor<f32, [8], [4], 4>, si32 -> !qd.ref<f32>
      %old = qd.atomic add %place, %value : !qd.ref<f32>
      qd.call @update(%value) : (f32) -> ()
      qd.yield
    }
  }
}

// -----

// No atomics in a serial task or on a local of an iteration; an exchange becomes a load and a store.
// CHECK-LABEL: qd.kernel @serial_and_local
// CHECK: qd.for parallel
// CHECK-NOT: qd.atomic
// CHECK: qd.load
// CHECK-NEXT: qd.store
qd.kernel @serial_and_local [] attributes {argument_bytes = 0 : i32} {
  qd.task {
    %total = qd.scratch 0 : !qd.ref<f32>
    %value = qd.constant 1.0 : f32
    %old = qd.atomic add %total, %value : !qd.ref<f32>
  }
  qd.task parallel {
    %zero = qd.constant 0 : si32
    %end = qd.constant 4 : si32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      %local = qd.local : !qd.ref<si32>
      qd.store %i, %local : !qd.ref<si32>
      %old = qd.atomic exchange %local, %i : !qd.ref<si32>
      qd.yield
    }
  }
}

// -----

// The element of a shared array that a thread has to itself: by its number, or by the loop's index modulo the size of a block.
// CHECK-LABEL: qd.kernel @own_shared_element
// CHECK-NOT: qd.atomic
// CHECK-LABEL: qd.kernel @shared_element_of_several
// CHECK-COUNT-3: qd.atomic
qd.kernel @own_shared_element [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %thread_sums = qd.shared 0 : !qd.tensor<f32, [64], [], 4>
    %sums = qd.shared 1 : !qd.tensor<f32, [64], [], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 640 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 64 : i32} {
    ^body(%i: si32):
      %thread = qd.thread : si32
      %own = qd.element %thread_sums[%thread] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %a = qd.atomic add %own, %value : !qd.ref<f32>
      %size = qd.constant 64 : si32
      %number = qd.binary mod %i, %size : si32, si32 -> si32
      %place = qd.element %sums[%number] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %b = qd.atomic add %place, %value : !qd.ref<f32>
      %mask = qd.constant 63 : si32
      %same = qd.binary bit_and %i, %mask : si32, si32 -> si32
      %again = qd.element %sums[%same] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %c = qd.atomic max %again, %value : !qd.ref<f32>
      qd.yield
    }
  }
}
qd.kernel @shared_element_of_several [] attributes {argument_bytes = 8 : i32} {
  qd.task parallel {
    %sums = qd.shared 0 : !qd.tensor<f32, [64], [], 4>
    %neighbors = qd.shared 1 : !qd.tensor<f32, [64], [], 4>
    %zero = qd.constant 0 : si32
    %end = qd.constant 640 : si32
    %value = qd.constant 1.0 : f32
    qd.for parallel (%zero) to (%end) : (si32) to (si32) attributes {block_dim = 64 : i32} {
    ^body(%i: si32):
      %size = qd.constant 32 : si32
      %number = qd.binary mod %i, %size : si32, si32 -> si32
      %place = qd.element %sums[%number] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %a = qd.atomic add %place, %value : !qd.ref<f32>
      %thread = qd.thread : si32
      %own = qd.element %neighbors[%thread] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %b = qd.atomic add %own, %value : !qd.ref<f32>
      %next = qd.element %neighbors[%zero] : !qd.tensor<f32, [64], [], 4>, si32 -> !qd.ref<f32>
      %c = qd.atomic add %next, %value : !qd.ref<f32>
      qd.yield
    }
  }
}
