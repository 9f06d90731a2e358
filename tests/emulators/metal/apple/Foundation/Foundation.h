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
+ (instancetype)stringWithFormat:(NSString *)format, ...;
- (NSString *)stringByAppendingPathComponent:(NSString *)name;
@property(readonly) const char *UTF8String;
@end
@interface NSConstantString : NSString
@end
@interface NSError : NSObject
@property(readonly) NSString *localizedDescription;
@end
@interface NSArray<Element> : NSObject
@property(readonly) NSUInteger count;
+ (instancetype)arrayWithObjects:(const Element[])objects count:(NSUInteger)count;
- (Element)objectAtIndexedSubscript:(NSUInteger)index;
@end
@interface NSURL : NSObject
+ (NSURL *)fileURLWithPath:(NSString *)path;
@end
@interface NSUUID : NSObject
@property(class, readonly) NSUUID *UUID;
@property(readonly) NSString *UUIDString;
@end
@interface NSData : NSObject
+ (instancetype)dataWithBytes:(const void *)bytes length:(NSUInteger)length;
+ (instancetype)dataWithContentsOfURL:(NSURL *)url;
- (bool)writeToURL:(NSURL *)url atomically:(bool)isAtomic;
@property(readonly) const void *bytes;
@property(readonly) NSUInteger length;
@end
@interface NSFileManager : NSObject
@property(class, readonly) NSFileManager *defaultManager;
- (bool)removeItemAtURL:(NSURL *)url error:(NSError **)error;
@end
@interface NSProcessInfo : NSObject
@property(class, readonly) NSProcessInfo *processInfo;
@property(readonly) NSString *operatingSystemVersionString;
@end
extern "C" NSString *NSTemporaryDirectory(void);
struct NSRange {
  NSUInteger location, length;
};
inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }
extern "C" size_t strlcpy(char *target, const char *source, size_t bytes);
