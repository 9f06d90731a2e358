// assert_text.h: the message of a check that fails
#pragma once

#include "artifact/artifact.h"
#include "ir/dialect.h"

#include "mlir/IR/Builders.h"

namespace qd::passes {

/// The text of an assertion: a list of literals and operands.
struct AssertText {
  mlir::SmallVector<mlir::Attribute> fragments;
  mlir::SmallVector<mlir::Value> values;
  mlir::Builder builder;

  explicit AssertText(mlir::MLIRContext *ctx) : builder(ctx) {}
  AssertText &operator<<(const llvm::Twine &text) {
    fragments.push_back(builder.getStringAttr(text));
    return *this;
  }
  AssertText &operator<<(mlir::Value value) {
    fragments.push_back(builder.getStrArrayAttr({""}));
    values.push_back(value);
    return *this;
  }
  AssertText &list(mlir::ValueRange items, llvm::StringRef left, llvm::StringRef right) {
    *this << left;
    for (auto [i, item] : llvm::enumerate(items)) *this << (i == 0 ? "" : ", ") << item;
    return *this << right;
  }

  ir::AssertOp addAssert(mlir::OpBuilder &at, mlir::Location loc, mlir::Value condition, artifact::Site::Kind kind,
                         bool reports = false) const {
    return ir::AssertOp::create(at, loc, condition, uint32_t(kind), at.getArrayAttr(fragments), values, reports);
  }
};

} // namespace qd::passes
