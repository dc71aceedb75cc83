package icefall.reader;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;

/**
 * The third reader: Apache Iceberg's own, which the engines on the JVM share.
 *
 * <p>It answers the same questions as the Python readers ({@code icefall_local.asked}), one JSON document in, one
 * out, so that a test asks all readers alike. A question names a table and, if need be, a predicate in Iceberg's
 * JSON; its answer holds the rows, and how many files the reader's planning was left with after it had looked at
 * their bounds.
 */
public final class TableReader {
  private static final ObjectMapper JSON = new ObjectMapper();

  private TableReader() {}

  /** Reads {@code {"catalog": PROPERTIES, "questions": [{"table": NAME, "where": PREDICATE?, "row_ids": BOOLEAN?}]}}. */
  public static void main(String[] arguments) throws Exception {
    JsonNode asked = JSON.readTree(System.in);
    ArrayNode answers = JSON.createArrayNode();
    Catalog catalog = CatalogUtil.buildIcebergCatalog("icefall", properties(asked.get("catalog")), null);
    for (JsonNode question : asked.get("questions")) {
      answers.add(answer(catalog, question));
    }
    System.out.println(JSON.writeValueAsString(answers));
    System.exit(0); // The S3 client's threads would keep the process for a minute.
  }

  private static ObjectNode answer(Catalog catalog, JsonNode question) throws IOException {
    Table table = catalog.loadTable(TableIdentifier.parse(question.get("table").asText()));
    JsonNode where = question.get("where");
    Expression filter =
        where == null ? Expressions.alwaysTrue() : ExpressionParser.fromJson(where.toString(), table.schema());
    Schema columns = question.path("row_ids").asBoolean() ? withRowIds(table.schema()) : table.schema();
    ObjectNode answer = JSON.createObjectNode();
    ArrayNode rows = answer.putArray("rows");
    try (CloseableIterable<Record> records = IcebergGenerics.read(table).project(columns).where(filter).build()) {
      records.forEach(record -> rows.add(Values.row(columns.asStruct(), record)));
    }
    try (var files = table.newScan().filter(filter).planFiles()) {
      answer.put("files", StreamSupport.stream(files.spliterator(), false).count());
    }
    return answer;
  }

  private static Schema withRowIds(Schema schema) {
    return new Schema(Stream.concat(schema.columns().stream(), Stream.of(MetadataColumns.ROW_ID)).toList());
  }

  private static Map<String, String> properties(JsonNode object) {
    return object.properties().stream().collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().asText()));
  }
}
