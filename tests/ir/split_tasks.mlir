// RUN: qd-opt %s --qd-split-tasks --split-input-file | FileCheck %s

// Statements between two loops become a serial task of their own.
// CHECK-LABEL: qd.kernel @work_between_loops
// CHECK: qd.task parallel {
// CHECK: qd.task {
// CHECK-NEXT: qd.print
// CHECK-NEXT: }
// CHECK: qd.task parallel {
// CHECK-NOT: qd.task
qd.kernel @work_between_loops [] attributes {argument_bytes = 0 : i32} {
  %zero = qd.constant 0 : si32
  %end = qd.constant 8 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.yield
  }
  qd.print ["between"]
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.yield
  }
}

// -----

// Cheap values are recomputed in the task that needs them; a loaded value gets a slot.
// CHECK-LABEL: qd.kernel @values_that_cross
// CHECK-SAME: scratch_bytes = 4
// CHECK: qd.task {
// CHECK: %[[LOADED:.*]] = qd.load
// CHECK: %[[OUT:.*]] = qd.scratch 0 : !qd.ref<si32>
// CHECK: qd.store %[[LOADED]], %[[OUT]]
// CHECK: qd.task parallel {
// CHECK-DAG: %[[SLOT:.*]] = qd.scratch 0 : !qd.ref<si32>
// CHECK-DAG: %[[COUNT:.*]] = qd.load %[[SLOT]]
// CHECK-DAG: %[[N:.*]] = qd.argument 8 : si32
// CHECK-DAG: %[[ONE:.*]] = qd.constant 1
// CHECK-DAG: %[[START:.*]] = qd.binary add %[[N]], %[[ONE]]
// CHECK: qd.for parallel (%[[START]]) to (%[[COUNT]])
qd.kernel @values_that_cross [] attributes {argument_bytes = 12 : i32} {
  %counts = qd.tensor_argument field "counts" at 0 position 0 : !qd.tensor<si32, [], [], 4>
  %place = qd.element %counts[] : !qd.tensor<si32, [], [], 4> -> !qd.ref<si32>
  %count = qd.load %place : !qd.ref<si32>
  %n = qd.argument 8 : si32
  %one = qd.constant 1 : si32
  %start = qd.binary add %n, %one : si32, si32 -> si32
  qd.for parallel (%start) to (%count) : (si32) to (si32) {
  ^body(%i: si32):
    qd.yield
  }
}

// -----

// So is a longer expression that the host can compute, too: it then knows the size of the loop.
// CHECK-LABEL: qd.kernel @sizes
// CHECK-NOT: scratch
// CHECK: qd.for parallel
// CHECK-NOT: scratch
qd.kernel @sizes [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [512], [4], 4>
  %v0 = qd.argument 8 : si32
  %m = qd.argument 12 : si32
  %v1 = qd.binary mul %v0, %m : si32, si32 -> si32
  %v2 = qd.binary mul %v1, %m : si32, si32 -> si32
  %v3 = qd.binary mul %v2, %m : si32, si32 -> si32
  %v4 = qd.binary mul %v3, %m : si32, si32 -> si32
  %v5 = qd.binary mul %v4, %m : si32, si32 -> si32
  %v6 = qd.binary mul %v5, %m : si32, si32 -> si32
  %v7 = qd.binary mul %v6, %m : si32, si32 -> si32
  %v8 = qd.binary mul %v7, %m : si32, si32 -> si32
  %v9 = qd.binary mul %v8, %m : si32, si32 -> si32
  %v10 = qd.binary mul %v9, %m : si32, si32 -> si32
  %v11 = qd.binary mul %v10, %m : si32, si32 -> si32
  %v12 = qd.binary mul %v11, %m : si32, si32 -> si32
  %v13 = qd.binary mul %v12, %m : si32, si32 -> si32
  %v14 = qd.binary mul %v13, %m : si32, si32 -> si32
  %v15 = qd.binary mul %v14, %m : si32, si32 -> si32
  %v16 = qd.binary mul %v15, %m : si32, si32 -> si32
  %v17 = qd.binary mul %v16, %m : si32, si32 -> si32
  %v18 = qd.binary mul %v17, %m : si32, si32 -> si32
  %v19 = qd.binary mul %v18, %m : si32, si32 -> si32
  %v20 = qd.binary mul %v19, %m : si32, si32 -> si32
  qd.for parallel (%v0) to (%v20) : (si32) to (si32) {
  ^body(%i: si32):
    %to = qd.element %x[%i] : !qd.tensor<si32, [512], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %i, %to : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A local that several tasks use is in the scratch block; a loop that only reads it loads it once.
// CHECK-LABEL: qd.kernel @locals_that_cross
// CHECK-SAME: scratch_bytes = 20
// CHECK: qd.task {
// CHECK-DAG: %[[SUM:.*]] = qd.scratch 0 : !qd.ref<f64>
// CHECK-DAG: %[[SCALE:.*]] = qd.scratch 8 : !qd.ref<vector<3xf32>>
// CHECK: qd.store %{{.*}}, %[[SUM]]
// CHECK: qd.store %{{.*}}, %[[SCALE]]
// CHECK: qd.task parallel {
// CHECK-DAG: %[[SUM:.*]] = qd.scratch 0 : !qd.ref<f64>
// CHECK-DAG: %[[PLACE:.*]] = qd.scratch 8 : !qd.ref<vector<3xf32>>
// CHECK-DAG: %[[VALUE:.*]] = qd.load %[[PLACE]]
// CHECK: qd.for parallel
// CHECK: qd.extract_at %[[VALUE]]
// CHECK: qd.atomic add %[[SUM]]
// CHECK: qd.task {
// CHECK: %[[SUM:.*]] = qd.scratch 0 : !qd.ref<f64>
// CHECK: %[[RESULT:.*]] = qd.load %[[SUM]]
// CHECK: qd.return %[[RESULT]]
qd.kernel @locals_that_cross [f64] attributes {argument_bytes = 0 : i32} {
  %sum = qd.local : !qd.ref<f64>
  %scale = qd.local : !qd.ref<vector<3xf32>>
  %nothing = qd.constant 0.0 : f64
  qd.store %nothing, %sum : !qd.ref<f64>
  %value = qd.constant dense<[1.0, 2.0, 3.0]> : vector<3xf32>
  qd.store %value, %scale : !qd.ref<vector<3xf32>>
  %zero = qd.constant 0 : si32
  %end = qd.constant 3 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.component %scale[%i] : !qd.ref<vector<3xf32>>, si32 -> !qd.ref<f32>
    %component = qd.load %place : !qd.ref<f32>
    %wide = qd.cast %component : f32 -> f64
    %old = qd.atomic add %sum, %wide : !qd.ref<f64>
    qd.yield
  }
  %result = qd.load %sum : !qd.ref<f64>
  qd.return %result : f64
}

// -----

// A serial task that only computes cheap values is removed.
// CHECK-LABEL: qd.kernel @nothing_but_a_loop
// CHECK: qd.task parallel {
// CHECK-NOT: qd.task
qd.kernel @nothing_but_a_loop [] attributes {argument_bytes = 8 : i32} {
  %array = qd.tensor_argument "array" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %array 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %array[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    qd.store %value, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The body of a repeat is split like the kernel; its condition is in the scratch block.
// CHECK-LABEL: qd.kernel @repeated_tasks
// CHECK: %[[AGAIN:.*]] = qd.scratch 0 : !qd.ref<i1>
// CHECK: qd.repeat while %[[AGAIN]] {
// CHECK: qd.task parallel {
// CHECK: qd.task {
// CHECK: %[[OWN:.*]] = qd.scratch 0 : !qd.ref<i1>
// CHECK: qd.store %{{.*}}, %[[OWN]]
// CHECK: }
// CHECK: qd.task {
// CHECK: qd.print
qd.kernel @repeated_tasks [] attributes {argument_bytes = 0 : i32} {
  %zero = qd.constant 0 : si32
  %end = qd.constant 8 : si32
  %again = qd.local : !qd.ref<i1>
  qd.repeat while %again {
    qd.for parallel (%zero) to (%end) : (si32) to (si32) {
    ^body(%i: si32):
      qd.yield
    }
    %more = qd.random : i1
    qd.store %more, %again : !qd.ref<i1>
  } : !qd.ref<i1>
  qd.print ["after"]
}

// -----

// A variable that is assigned once, before it is read, is its value: no task stores it, and the loop's bound is a cheap expression.
// CHECK-LABEL: qd.kernel @variable_assigned_once
// CHECK-NOT: scratch_bytes
// CHECK: qd.task parallel {
// CHECK: %[[N:.*]] = qd.argument 0 : si32
// CHECK: qd.for parallel ({{.*}}) to (%[[N]])
qd.kernel @variable_assigned_once [] attributes {argument_bytes = 4 : i32} {
  %n = qd.argument 0 : si32
  %variable = qd.local : !qd.ref<si32>
  qd.store %n, %variable : !qd.ref<si32>
  %zero = qd.constant 0 : si32
  %end = qd.load %variable : !qd.ref<si32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    qd.yield
  }
}

// -----

// A repeat that draws random numbers counts its rounds in the scratch block, like its condition.
// CHECK-LABEL: qd.kernel @counted_rounds
// CHECK: qd.repeat while %{{.*}} counting %[[ROUNDS:.*]] {
// CHECK: %[[SAME:.*]] = qd.scratch [[SLOT:.*]] : !qd.ref<ui32>
// CHECK: qd.store %{{.*}}, %[[SAME]]
qd.kernel @counted_rounds [] attributes {argument_bytes = 4 : i32} {
  %one = qd.constant 1 : ui32
  %rounds = qd.local : !qd.ref<ui32>
  qd.store %one, %rounds : !qd.ref<ui32>
  %again = qd.local : !qd.ref<i1>
  qd.repeat while %again counting %rounds {
    %false = qd.constant false
    qd.store %false, %again : !qd.ref<i1>
    %before = qd.load %rounds : !qd.ref<ui32>
    %after = qd.binary add %before, %one : ui32, ui32 -> ui32
    qd.store %after, %rounds : !qd.ref<ui32>
  } : !qd.ref<i1>, !qd.ref<ui32>
}

// -----

// Operations in a gate with a parallel loop become tasks with its number; other gates stay branches of serial tasks. The position gets a
// slot even if only one task stores it, and the comparison of a gate that became tasks goes.
// CHECK-LABEL: qd.kernel @gates
// CHECK-SAME: qd.position = 0 : i32
// CHECK: qd.task {
// CHECK: %[[POSITION:.*]] = qd.scratch 0 : !qd.ref<si32>
// CHECK: qd.store %{{.*}}, %[[POSITION]]
// CHECK: %[[RUNS:.*]] = qd.binary le
// CHECK-NEXT: qd.if %[[RUNS]] {
// CHECK-NEXT: qd.print ["first"]
// CHECK-NEXT: qd.yield
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK: qd.task parallel attributes {qd.gate = 1 : i32} {
// CHECK: }
// CHECK: qd.task attributes {qd.gate = 1 : i32} {
// CHECK-NEXT: qd.print ["second"]
// CHECK-NEXT: }
// CHECK-NEXT: qd.task {
// CHECK: qd.if
// CHECK-NEXT: qd.print ["third"]
qd.kernel @gates [] attributes {argument_bytes = 4 : i32} {
  %start = qd.argument 0 : si32
  %position = qd.local {qd.position} : !qd.ref<si32>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  qd.store %zero, %position : !qd.ref<si32>
  qd.store %start, %position : !qd.ref<si32>
  %now = qd.load %position : !qd.ref<si32>
  %runs = qd.binary le %now, %zero : si32, si32 -> i1
  qd.if %runs {
    qd.print ["first"]
    qd.yield
  } {qd.gate = 0 : i32}
  %later = qd.load %position : !qd.ref<si32>
  %runs_later = qd.binary le %later, %one : si32, si32 -> i1
  qd.if %runs_later {
    qd.for parallel (%zero) to (%one) : (si32) to (si32) {
    ^body(%i: si32):
      qd.yield
    }
    qd.print ["second"]
    qd.yield
  } {qd.gate = 1 : i32}
  %last = qd.load %position : !qd.ref<si32>
  %runs_last = qd.binary le %last, %one : si32, si32 -> i1
  qd.if %runs_last {
    qd.print ["third"]
    qd.yield
  } {qd.gate = 1 : i32}
}
