// Foundation.h: the declarations of Apple's Foundation that src/backends/metal uses, to check its syntax elsewhere
#pragma once

#include <cstddef>
#include <cstdint>

#define nil nullptr
#define NO false
using NSUInteger = unsigned long;
using NSInteger = long;

@interface NSObject
+ (instancetype)alloc;
- (instancetype)init;
@end
@protocol NSObject
@end
@interface NSString : NSObject
+ (instancetype)stringWithUTF8String:(const char *)text;
@property(readonly) const char *UTF8String;
@end
@interface NSConstantString : NSString
@end
@interface NSError : NSObject
@property(readonly) NSString *localizedDescription;
@end
@interface NSArray<Element> : NSObject
@property(readonly) NSUInteger count;
- (Element)objectAtIndexedSubscript:(NSUInteger)index;
@end
struct NSRange {
  NSUInteger location, length;
};
inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }
extern "C" size_t strlcpy(char *target, const char *source, size_t bytes);
