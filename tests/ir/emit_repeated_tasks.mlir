// RUN: qd-opt %s --emit=llvm --target=x64 --split-input-file | FileCheck %s

// Equal tasks share a function, which is compiled once: the first and the third.
// CHECK: call i1 @qd_task_0(
// CHECK: call i1 @qd_task_1(
// CHECK: call i1 @qd_task_0(
// CHECK: define internal i1 @qd_task_0(
// CHECK: define internal i1 @qd_task_1(
// CHECK-NOT: @qd_task_2
qd.kernel @repeat [] attributes {argument_bytes = 8 : i32} {
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %zero, %place : !qd.ref<si32>
    qd.yield
  }
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %one = qd.constant 1 : si32
    %place = qd.element %x[%one] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %one, %place : !qd.ref<si32>
    qd.yield
  }
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %place = qd.element %x[%zero] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    qd.store %zero, %place : !qd.ref<si32>
    qd.yield
  }
}

// -----

// Tasks that draw random numbers have numbers of their own.
// CHECK: call i1 @qd_task_0(
// CHECK: call i1 @qd_task_1(
qd.kernel @draw [] attributes {argument_bytes = 8 : i32} {
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %place = qd.element %x[%zero] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    %number = qd.random : f32
    qd.store %number, %place : !qd.ref<f32>
    qd.yield
  }
  qd.task {
    %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<f32, [64], [4], 4>
    %zero = qd.constant 0 : si32
    %place = qd.element %x[%zero] : !qd.tensor<f32, [64], [4], 4>, si32 -> !qd.ref<f32>
    %number = qd.random : f32
    qd.store %number, %place : !qd.ref<f32>
    qd.yield
  }
}
