// RUN: qd-opt %s --qd-gather-updates=on-grid=true --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-gather-updates=on-grid=true --qd-merge-nested-loops --qd-distribute-rows --split-input-file | FileCheck %s --check-prefix=ROWS

// 512 sums of 1,000 terms: 62 threads share each, so that there are enough threads. Neighboring threads update neighbors.
// CHECK-LABEL: qd.kernel @parts
// CHECK-DAG: %[[COUNT:.*]] = qd.constant 62 : si64
// CHECK-DAG: %[[LENGTH:.*]] = qd.constant 17 : si64
// CHECK: %[[THREADS:.*]] = qd.cast %[[COUNT]]
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%[[THREADS]], %{{.*}}) {{.*}}qd.adds_parts
// CHECK-NEXT: ^bb0(%[[PART:.*]]: si32, %[[J:.*]]: si32):
// CHECK: %[[WIDE:.*]] = qd.cast %[[PART]]
// CHECK: qd.binary mul %[[WIDE]], %[[LENGTH]]
// CHECK: qd.for (%{{.*}}) to
// CHECK-NOT: qd.atomic
// CHECK: qd.element %{{.*}}[%[[J]]]
// CHECK: qd.atomic add
// CHECK-NOT: qd.for
qd.kernel @parts [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [512], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [1000, 512], [2048, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 1000 : si32
  %columns = qd.constant 512 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %y[%i, %j] : !qd.tensor<f32, [1000, 512], [2048, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %x[%j] : !qd.tensor<f32, [512], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %value : !qd.ref<f32>
    qd.yield
  }
}

// -----

// 160,000 sums of 300 terms need no parts. Their terms are along rows, and neighboring sums have other rows: subgroups take them.
// CHECK-LABEL: qd.kernel @rows
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%{{.*}}, %{{.*}}) : (si32, si32)
// CHECK-NOT: qd.adds_parts
// CHECK: qd.for (
// CHECK: qd.atomic add
// ROWS-LABEL: qd.kernel @rows
// ROWS: qd.shuffle
qd.kernel @rows [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [400, 400], [1600, 4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [400, 300], [1200, 4], 4>
  %z = qd.tensor_argument field "z" at 16 position 0 : !qd.tensor<f32, [400, 300], [1200, 4], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.constant 400 : si32
  %columns = qd.constant 300 : si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %left = qd.element %y[%i, %j] : !qd.tensor<f32, [400, 300], [1200, 4], 4>, si32, si32 -> !qd.ref<f32>
    %a = qd.load %left : !qd.ref<f32>
    qd.for (%zero) to (%rows) : (si32) to (si32) {
    ^inner(%k: si32):
      %right = qd.element %z[%k, %j] : !qd.tensor<f32, [400, 300], [1200, 4], 4>, si32, si32 -> !qd.ref<f32>
      %b = qd.load %right : !qd.ref<f32>
      %product = qd.binary mul %a, %b : f32, f32 -> f32
      %to = qd.element %x[%i, %k] : !qd.tensor<f32, [400, 400], [1600, 4], 4>, si32, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %product : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Updates of own elements are sums, too, if others make them atomic: both halves of a pair.
// CHECK-LABEL: qd.kernel @pairs
// CHECK-COUNT-2: qd.adds_parts
// CHECK-NOT: qd.for parallel
qd.kernel @pairs [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [2048], [4], 4>
  %zero = qd.constant 0 : si32
  %count = qd.constant 2048 : si32
  qd.for parallel (%zero) to (%count) : (si32) to (si32) {
  ^body(%i: si32):
    qd.for (%zero) to (%count) : (si32) to (si32) {
    ^inner(%j: si32):
      %distance = qd.binary sub %i, %j : si32, si32 -> si32
      %one = qd.element %x[%i] : !qd.tensor<si32, [2048], [4], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic add %one, %distance : !qd.ref<si32>
      %other = qd.element %x[%j] : !qd.tensor<si32, [2048], [4], 4>, si32 -> !qd.ref<si32>
      %last = qd.atomic sub %other, %distance : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// With lengths that the host computes before a launch, one of two loops has no iterations: the one as it was, or the sums.
// CHECK-LABEL: qd.kernel @lengths
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%{{.*}}, %{{.*}}) :
// CHECK-NOT: qd.for (
// CHECK: qd.atomic add
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%{{.*}}, %{{.*}}) {{.*}}qd.adds_parts
// CHECK: qd.for (
// CHECK: qd.atomic add
qd.kernel @lengths [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %y = qd.tensor_argument "y" at 16 position 0 : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %rows = qd.extent %y 0 : !qd.tensor<f32, [?], [], 4> -> si32
  %columns = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for parallel (%zero, %zero) to (%rows, %columns) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %y[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %x[%j] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %value : !qd.ref<f32>
    qd.yield
  }
}

// -----

// With few threads as it is, a loop becomes sums although they have not many: 256 threads before, 16 for each of 256 sums now.
// CHECK-LABEL: qd.kernel @few_threads
// CHECK-DAG: %[[COUNT:.*]] = qd.constant 16 : si64
// CHECK: %[[THREADS:.*]] = qd.cast %[[COUNT]]
// CHECK: qd.for parallel (%{{.*}}, %{{.*}}) to (%[[THREADS]], %{{.*}}) {{.*}}qd.adds_parts
// CHECK: qd.for (
// CHECK-NOT: qd.for parallel
qd.kernel @few_threads [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [256], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [256], [4], 4>
  %z = qd.tensor_argument field "z" at 16 position 0 : !qd.tensor<f32, [256], [4], 4>
  %zero = qd.constant 0 : si32
  %n = qd.constant 256 : si32
  qd.for parallel (%zero) to (%n) : (si32) to (si32) {
  ^body(%i: si32):
    %left = qd.element %y[%i] : !qd.tensor<f32, [256], [4], 4>, si32 -> !qd.ref<f32>
    %a = qd.load %left : !qd.ref<f32>
    qd.for (%zero) to (%n) : (si32) to (si32) {
    ^inner(%j: si32):
      %right = qd.element %z[%j] : !qd.tensor<f32, [256], [4], 4>, si32 -> !qd.ref<f32>
      %b = qd.load %right : !qd.ref<f32>
      %product = qd.binary mul %a, %b : f32, f32 -> f32
      %to = qd.element %x[%j] : !qd.tensor<f32, [256], [4], 4>, si32 -> !qd.ref<f32>
      %old = qd.atomic add %to, %product : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// As they were: few sums; few terms; threads that read neighbors now, and would not; a grid that someone chose; a length that only the
// device knows.
// CHECK-LABEL: qd.kernel @kept
// CHECK-COUNT-5: qd.for parallel (%{{.*}}, %{{.*}}) to
// CHECK-NOT: qd.for
qd.kernel @kept [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [4096], [4], 4>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>
  %n = qd.tensor_argument field "n" at 16 position 0 : !qd.tensor<si32, [], [], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1.0 : f32
  %few = qd.constant 10 : si32
  %many = qd.constant 4096 : si32
  qd.for parallel (%zero, %zero) to (%many, %few) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<f32, [4096], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %one : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%few, %many) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<f32, [4096], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %one : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%many, %many) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %from = qd.element %y[%i, %j] : !qd.tensor<f32, [4096, 4096], [16384, 4], 4>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %from : !qd.ref<f32>
    %to = qd.element %x[%i] : !qd.tensor<f32, [4096], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %value : !qd.ref<f32>
    qd.yield
  }
  qd.for parallel (%zero, %zero) to (%many, %many) : (si32, si32) to (si32, si32) attributes {qd.grid_size = 4 : i32} {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<f32, [4096], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %one : !qd.ref<f32>
    qd.yield
  }
  %place = qd.element %n[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
  %count = qd.load %place : !qd.ref<si32>
  qd.for parallel (%zero, %zero) to (%count, %many) : (si32, si32) to (si32, si32) {
  ^body(%i: si32, %j: si32):
    %to = qd.element %x[%j] : !qd.tensor<f32, [4096], [4], 4>, si32 -> !qd.ref<f32>
    %old = qd.atomic add %to, %one : !qd.ref<f32>
    qd.yield
  }
}
