package icefall.reader;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/**
 * A read value as JSON, in the one form in which all readers' values are compared.
 *
 * <p>It follows Iceberg's single-value JSON where that says something, but always writes the whole fraction of a
 * second, names a struct's fields, and lists a map as pairs: so equal values are equal text.
 */
final class Values {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS");
  private static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS");
  private static final DateTimeFormatter NANOS = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSSSSS");

  private Values() {}

  /** A struct's fields by name. */
  static ObjectNode row(Types.StructType type, StructLike row) {
    ObjectNode object = JSON.objectNode();
    for (int place = 0; place < type.fields().size(); place++) {
      Types.NestedField field = type.fields().get(place);
      object.set(field.name(), value(field.type(), row.get(place, Object.class)));
    }
    return object;
  }

  private static JsonNode value(Type type, Object value) {
    if (value == null) {
      return JSON.nullNode();
    }
    return switch (type.typeId()) {
      case BOOLEAN -> JSON.booleanNode((Boolean) value);
      case INTEGER -> JSON.numberNode((Integer) value);
      case LONG -> JSON.numberNode((Long) value);
      case FLOAT -> JSON.numberNode(((Float) value).doubleValue());
      case DOUBLE -> JSON.numberNode((Double) value);
      case DECIMAL -> JSON.textNode(((BigDecimal) value).toPlainString());
      case TIME -> JSON.textNode(TIME.format((LocalTime) value));
      case TIMESTAMP -> moment(MICROS, value);
      case TIMESTAMP_NANO -> moment(NANOS, value);
      case FIXED -> hex((byte[]) value);
      case BINARY -> hex(bytes((ByteBuffer) value));
      case DATE, STRING, UUID -> JSON.textNode(value.toString());
      case STRUCT -> row(type.asStructType(), (StructLike) value);
      case LIST -> list(type.asListType().elementType(), (Collection<?>) value);
      case MAP -> pairs(type.asMapType(), (Map<?, ?>) value);
      default -> throw new IllegalArgumentException("no form is agreed on for values of type " + type);
    };
  }

  private static JsonNode moment(DateTimeFormatter format, Object value) {
    if (value instanceof OffsetDateTime instant) {
      return JSON.textNode(format.format(instant.withOffsetSameInstant(ZoneOffset.UTC)) + "+00:00");
    }
    return JSON.textNode(format.format((LocalDateTime) value));
  }

  private static JsonNode hex(byte[] bytes) {
    return JSON.textNode(HexFormat.of().formatHex(bytes));
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }

  private static ArrayNode list(Type element, Collection<?> values) {
    ArrayNode list = JSON.arrayNode();
    values.forEach(value -> list.add(value(element, value)));
    return list;
  }

  private static ArrayNode pairs(Types.MapType type, Map<?, ?> map) {
    ArrayNode pairs = JSON.arrayNode();
    map.forEach((key, value) -> pairs.add(JSON.arrayNode().add(value(type.keyType(), key)).add(value(type.valueType(), value))));
    return pairs;
  }
}
