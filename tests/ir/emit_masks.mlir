// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --lanes=4 --split-input-file | FileCheck %s

// A small branch on a varying condition needs no jump: the store becomes a select.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[MASK:.*]] = icmp sgt <4 x i32>
// CHECK-NOT: masked:
// CHECK: select <4 x i1> %[[MASK]], <4 x i32>
qd.kernel @select [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.load %place : !qd.ref<si32>
    %local = qd.local : !qd.ref<si32>
    qd.store %old, %local : !qd.ref<si32>
    %big = qd.binary gt %old, %zero : si32, si32 -> i1
    qd.if %big {
      qd.store %zero, %local : !qd.ref<si32>
      qd.yield
    }
    %new = qd.load %local : !qd.ref<si32>
    qd.store %new, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A branch that accesses memory is skipped if no lane takes it; a uniform condition is a plain branch.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: bitcast <4 x i1> %{{.*}} to i4
// CHECK: br i1 %{{.*}}, label %masked, label %masked.end
// CHECK: masked:
// CHECK: call void @llvm.masked.store.v4i32
// CHECK: br i1 %{{.*}}, label %if, label %if.end
qd.kernel @branches [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %n = qd.argument 8 : si32
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.load %place : !qd.ref<si32>
    %differs = qd.binary gt %old, %zero : si32, si32 -> i1
    qd.if %differs {
      qd.store %zero, %place : !qd.ref<si32>
      qd.yield
    }
    %same = qd.binary gt %n, %zero : si32, si32 -> i1
    qd.if %same {
      qd.store %n, %place : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Lanes leave a loop one by one; the loop ends with the last. A counter that is uniform stays one scalar.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-DAG: %live.loop = alloca <4 x i1>
// CHECK-DAG: %index = alloca i32
// CHECK: load <4 x i1>, ptr %live.loop
qd.kernel @leaving [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %limit = qd.load %place : !qd.ref<si32>
    %count = qd.local : !qd.ref<si32>
    qd.store %zero, %count : !qd.ref<si32>
    qd.for (%zero) to (%end) : (si32) to (si32) {
    ^inner(%j: si32):
      %done = qd.binary gt %j, %limit : si32, si32 -> i1
      qd.if %done {
        qd.break
      }
      qd.store %j, %count : !qd.ref<si32>
      qd.yield
    }
    %result = qd.load %count : !qd.ref<si32>
    qd.store %result, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Reads of neighbors in tiles are emitted twice: without masks for vectors whose lanes are all active, and under their mask.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[MASK:.*]] = icmp sgt <4 x i32>
// CHECK: %[[BITS:.*]] = bitcast <4 x i1> %[[MASK]] to i4
// CHECK: %[[ALL:.*]] = icmp eq i4 %[[BITS]], -1
// CHECK: br i1 %[[ALL]], label %all, label %all.else
// CHECK: all:
// CHECK: load <4 x float>
// CHECK: load <4 x float>
// CHECK: store <4 x float>
// CHECK: all.else:
// CHECK: br i1 %{{.*}}, label %masked
// CHECK: masked:
// CHECK: call {{.*}}@llvm.masked.load.v4f32
qd.kernel @neighbors [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4 tiles [0, 8, 20]>
  %y = qd.tensor_argument field "y" at 8 position 0 : !qd.tensor<f32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %inside = qd.binary gt %i, %zero : si32, si32 -> i1
    qd.if %inside {
      %left = qd.binary sub %i, %one : si32, si32 -> si32
      %from = qd.element %x[%left] : !qd.tensor<f32, [64], [4], 4 tiles [0, 8, 20]>, si32 -> !qd.ref<f32>
      %value = qd.load %from : !qd.ref<f32>
      %to = qd.element %y[%i] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
      qd.store %value, %to : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A row of a listed block that is shorter than a vector is one vector under a constant mask.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK-NOT: vectors:
// CHECK: call void @llvm.masked.store.v4f32.p0({{.*}}<4 x i1> <i1 true, i1 true, i1 true, i1 false>)
qd.kernel @rows [] attributes {argument_bytes = 20 : i32} {
  %list = qd.tensor_argument field "list" at 0 position 0 : !qd.tensor<si32, [8], [4], 4>
  %x = qd.tensor_argument field "x" at 8 position 0 : !qd.tensor<f32, [8, 3], [12, 4], 4>
  %a = qd.argument 16 : f32
  %zero = qd.constant 0 : si32
  %count = qd.constant 8 : si32
  %row = qd.constant 3 : si32
  qd.for parallel (%zero, %zero) to (%count, %row) : (si32, si32) to (si32, si32) {
  ^body(%n: si32, %position: si32):
    %listed = qd.element %list[%n] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
    %block = qd.load %listed {qd.distinct} : !qd.ref<si32>
    %place = qd.element %x[%block, %position] : !qd.tensor<f32, [8, 3], [12, 4], 4>, si32, si32 -> !qd.ref<f32>
    qd.store %a, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// Lanes take two rows of a listed block of 2 by 2, whose neighbors to the right are in two blocks.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[OWN:.*]] = load <4 x float>, ptr
// CHECK: %[[FIRST:.*]] = shufflevector <4 x float> %[[OWN]], <4 x float> poison, <4 x i32> <i32 0, i32 3, i32 2, i32 poison>
// CHECK: %[[NEXT:.*]] = load <4 x float>, ptr
// CHECK: shufflevector <4 x float> %[[FIRST]], <4 x float> %[[NEXT]], <4 x i32> <i32 0, i32 1, i32 2, i32 4>
// CHECK: store <4 x float>
qd.kernel @several_rows [] attributes {argument_bytes = 24 : i32} {
  %list = qd.tensor_argument field "list" at 0 position 0 : !qd.tensor<si32, [8], [4], 4>
  %x = qd.tensor_argument field "x" at 8 position 0 : !qd.tensor<f32, [2, 16], [8, 4], 4 tiles [1, 2, 8]>
  %y = qd.tensor_argument field "y" at 16 position 0 : !qd.tensor<f32, [8, 2, 2], [16, 8, 4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %count = qd.constant 8 : si32
  %two = qd.constant 2 : si32
  qd.for parallel (%zero, %zero, %zero) to (%count, %two, %two) : (si32, si32, si32) to (si32, si32, si32) {
  ^body(%n: si32, %row: si32, %column: si32):
    %listed = qd.element %list[%n] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
    %block = qd.load %listed {qd.distinct} : !qd.ref<si32>
    %start = qd.binary mul %block, %two : si32, si32 -> si32
    %index = qd.binary add %start, %column : si32, si32 -> si32
    %right = qd.binary add %index, %one : si32, si32 -> si32
    %neighbor = qd.element %x[%row, %right] : !qd.tensor<f32, [2, 16], [8, 4], 4 tiles [1, 2, 8]>, si32, si32 -> !qd.ref<f32>
    %value = qd.load %neighbor : !qd.ref<f32>
    %place = qd.element %y[%block, %row, %column] : !qd.tensor<f32, [8, 2, 2], [16, 8, 4], 4>, si32, si32, si32 -> !qd.ref<f32>
    qd.store %value, %place : !qd.ref<f32>
    qd.yield
  }
}

// -----

// The same neighbors under a condition, in memory with a margin: their loads have no masks, and begin at whole vectors of the block.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: masked:
// CHECK-NOT: masked.load
// CHECK: %[[OWN:.*]] = load <4 x float>, ptr %[[BLOCK:.*]], align 4
// CHECK: %[[AFTER:.*]] = getelementptr i8, ptr %[[BLOCK]], i64 16
// CHECK: %[[NEXT:.*]] = load <4 x float>, ptr %[[AFTER]], align 4
// CHECK: call void @llvm.masked.store.v4f32
qd.kernel @rows_with_margin [] attributes {argument_bytes = 24 : i32} {
  %list = qd.tensor_argument field "list" at 0 position 0 : !qd.tensor<si32, [8], [4], 4>
  %x = qd.tensor_argument field "x" at 8 position 0 {qd.margin = 160 : i64} : !qd.tensor<f32, [2, 16], [8, 4], 4 tiles [1, 2, 8]>
  %y = qd.tensor_argument field "y" at 16 position 0 : !qd.tensor<f32, [8, 2, 2], [16, 8, 4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %count = qd.constant 8 : si32
  %two = qd.constant 2 : si32
  %limit = qd.constant 0.5 : f32
  qd.for parallel (%zero, %zero, %zero) to (%count, %two, %two) : (si32, si32, si32) to (si32, si32, si32) {
  ^body(%n: si32, %row: si32, %column: si32):
    %listed = qd.element %list[%n] : !qd.tensor<si32, [8], [4], 4>, si32 -> !qd.ref<si32>
    %block = qd.load %listed {qd.distinct} : !qd.ref<si32>
    %place = qd.element %y[%block, %row, %column] : !qd.tensor<f32, [8, 2, 2], [16, 8, 4], 4>, si32, si32, si32 -> !qd.ref<f32>
    %own = qd.load %place : !qd.ref<f32>
    %is_large = qd.binary gt %own, %limit : f32, f32 -> i1
    qd.if %is_large {
      %start = qd.binary mul %block, %two : si32, si32 -> si32
      %index = qd.binary add %start, %column : si32, si32 -> si32
      %right = qd.binary add %index, %one : si32, si32 -> si32
      %neighbor = qd.element %x[%row, %right] : !qd.tensor<f32, [2, 16], [8, 4], 4 tiles [1, 2, 8]>, si32, si32 -> !qd.ref<f32>
      %value = qd.load %neighbor : !qd.ref<f32>
      qd.store %value, %place : !qd.ref<f32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// A counter that assigns positions: the active lanes add at once, and each gets the old value and what the lanes before it added.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[ADDED:.*]] = select <4 x i1> %{{.*}}, <4 x i64> splat (i64 2), <4 x i64> zeroinitializer
// CHECK: %[[TOTAL:.*]] = extractelement <4 x i64> %[[SUMS:.*]], i64 3
// CHECK: sub <4 x i64> %[[SUMS]], %[[ADDED]]
// CHECK: atomicrmw add ptr %{{.*}}, i64 %[[TOTAL]]
// CHECK-NOT: atomicrmw
qd.kernel @positions [] attributes {argument_bytes = 24 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %count = qd.tensor_argument field "count" at 8 position 0 : !qd.tensor<si64, [1], [8], 8>
  %to = qd.tensor_argument field "to" at 16 position 0 : !qd.tensor<si64, [64], [8], 8>
  %zero = qd.constant 0 : si32
  %two = qd.constant 2 : si64
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %is_positive = qd.binary gt %value, %zero : si32, si32 -> i1
    qd.if %is_positive {
      %counter = qd.element %count[%zero] : !qd.tensor<si64, [1], [8], 8>, si32 -> !qd.ref<si64>
      %old = qd.atomic add %counter, %two : !qd.ref<si64>
      %target = qd.element %to[%i] : !qd.tensor<si64, [64], [8], 8>, si32 -> !qd.ref<si64>
      qd.store %old, %target : !qd.ref<si64>
      qd.yield
    }
    qd.yield
  }
}

// -----

// Bits of words at any index: one locked instruction, if the active lanes have the same word.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[OTHERS:.*]] = icmp ne <4 x i32>
// CHECK: and <4 x i1> %[[OTHERS]], %[[MASK:.*]]
// CHECK: br i1 %{{.*}}, label %one_word, label %one_word.else
// CHECK: one_word:
// CHECK: select <4 x i1> %[[MASK]], <4 x i32> %{{.*}}, <4 x i32> zeroinitializer
// CHECK: atomicrmw or
// CHECK: lanes:
// CHECK: atomicrmw or
qd.kernel @set_bits [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %bits = qd.tensor_argument field "bits" at 8 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %is_positive = qd.binary gt %value, %zero : si32, si32 -> i1
    qd.if %is_positive {
      %word = qd.element %bits[%value] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
      %old = qd.atomic bit_or %word, %i : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}

// -----

// An exchange whose old value is not used is a store that other threads see whole.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: store atomic i32 %{{.*}}, ptr %{{.*}} release, align 4
// CHECK-NOT: atomicrmw
qd.kernel @exchange [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %to = qd.tensor_argument field "to" at 8 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %target = qd.element %to[%value] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.atomic exchange %target, %i : !qd.ref<si32>
    qd.yield
  }
}

// -----

// A comparison that fails needs no locked instruction.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: %[[SEEN:.*]] = load atomic i32, ptr %{{.*}} seq_cst, align 4
// CHECK: %[[EQUAL:.*]] = icmp eq i32 %[[SEEN]], 0
// CHECK: br i1 %[[EQUAL]], label %changes
// CHECK: changes:
// CHECK: cmpxchg
qd.kernel @claim [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %to = qd.tensor_argument field "to" at 8 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %target = qd.element %to[%value] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %old = qd.compare_exchange %target, %zero, %i : !qd.ref<si32>, si32
    qd.yield
  }
}

// -----

// Lanes that have left a loop never see again a local that only the loop reads: its stores need no mask, or in a branch only the condition.
// What is read later keeps its value. An element that all lanes have loaded is loaded without a mask in the loop, too.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: vector:
// CHECK: while.test
// CHECK: %[[MORE:.*]] = icmp sgt <4 x i32> %{{.*}}, zeroinitializer
// CHECK: %[[LIVE:.*]] = and <4 x i1> %{{.*}}, %[[MORE]]
// CHECK: failed.end
// CHECK: %[[ELEMENT:.*]] = load <4 x i32>
// CHECK: %[[LESS:.*]] = sub <4 x i32> %{{.*}}, %[[ELEMENT]]
// CHECK-NEXT: store <4 x i32> %[[LESS]], ptr %local
// CHECK: %[[SMALL:.*]] = icmp slt <4 x i32>
// CHECK: select <4 x i1> %[[SMALL]], <4 x i32> zeroinitializer
// CHECK: %[[NEXT:.*]] = add <4 x i32>
// CHECK: select <4 x i1> %{{.*}}, <4 x i32> %[[NEXT]]
// CHECK: tail:
qd.kernel @only_read_in_loop [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [63], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %end = qd.constant 63 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [63], [4], 4>, si32 -> !qd.ref<si32>
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
      %again = qd.element %x[%i] : !qd.tensor<si32, [63], [4], 4>, si32 -> !qd.ref<si32>
      %step = qd.load %again : !qd.ref<si32>
      %now = qd.load %rest : !qd.ref<si32>
      %less = qd.binary sub %now, %step : si32, si32 -> si32
      qd.store %less, %rest : !qd.ref<si32>
      %small = qd.binary lt %less, %one : si32, si32 -> i1
      qd.if %small {
        qd.store %zero, %rest : !qd.ref<si32>
        qd.yield
      }
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

// Lanes that have left a loop never see its counter again: one counter serves all lanes, also after a break of some of them. What remains
// of the iteration is so short that it is not skipped when no lane is left. The lanes share the divisor, too: one division for all.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: while.body:
// CHECK: fdiv double 1.000000e+00, %{{.*}}
// CHECK: call <4 x i32> @qd_mod_by_i32x4(<4 x i32> %{{.*}}, i32 %[[COUNTER:.*]], double %{{.*}})
// CHECK-NOT: {{^}}rest
// CHECK: add i32 %{{.*}}, 1
// CHECK: br label %while
qd.kernel @first_factor [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %found = qd.local : !qd.ref<si32>
    qd.store %zero, %found : !qd.ref<si32>
    %counter = qd.local : !qd.ref<si32>
    qd.store %two, %counter : !qd.ref<si32>
    qd.while {
      %k = qd.load %counter : !qd.ref<si32>
      %square = qd.binary mul %k, %k : si32, si32 -> si32
      %more = qd.binary le %square, %i : si32, si32 -> i1
      qd.condition %more
    } do {
      %k = qd.load %counter : !qd.ref<si32>
      %rest = qd.binary mod %i, %k : si32, si32 -> si32
      %divides = qd.binary eq %rest, %zero : si32, si32 -> i1
      qd.if %divides {
        qd.store %one, %found : !qd.ref<si32>
        qd.break
      }
      %now = qd.load %counter : !qd.ref<si32>
      %next = qd.binary add %now, %one : si32, si32 -> si32
      qd.store %next, %counter : !qd.ref<si32>
      qd.yield
    }
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %found : !qd.ref<si32>
    qd.store %value, %place : !qd.ref<si32>
    qd.yield
  }
}
