package icefall.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;

/**
 * Another engine that works on a table of ours: it deletes rows by position and by equality, partitions the table
 * anew, and sets properties, each by Apache Iceberg's own code.
 *
 * <p>Deletes apply to a data file by its sequence number, so whoever touches manifests can undo them without a word.
 */
public final class OtherEngine {
  private OtherEngine() {}

  /** Reads {@code {"catalog", "table", "position", "equal": {"column", "value"}, "bucket", "properties"}}. */
  public static void main(String[] arguments) throws Exception {
    JsonNode order = new ObjectMapper().readTree(System.in);
    Catalog catalog = CatalogUtil.buildIcebergCatalog("icefall", texts(order.get("catalog")), null);
    Table table = catalog.loadTable(TableIdentifier.parse(order.get("table").asText()));
    DataFile file = oldestFile(table);
    DeleteFile byPosition = deletePosition(table, file, order.get("position").asLong());
    DeleteFile byEquality = deleteEqual(table, order.at("/equal/column").asText(), order.at("/equal/value").asLong());
    table.newRowDelta().addDeletes(byPosition).addDeletes(byEquality).commit();
    table.updateSpec().addField(Expressions.bucket(order.get("bucket").asText(), 4)).commit();
    var properties = table.updateProperties();
    texts(order.get("properties")).forEach(properties::set);
    properties.commit();
    System.exit(0); // The S3 client's threads would keep the process for a minute.
  }

  private static DataFile oldestFile(Table table) throws IOException {
    try (var tasks = table.newScan().planFiles()) {
      return StreamSupport.stream(tasks.spliterator(), false)
          .map(FileScanTask::file)
          .min(Comparator.comparing(DataFile::dataSequenceNumber))
          .orElseThrow();
    }
  }

  /** A file of positions, or a deletion vector where the format has nothing else any more. */
  private static DeleteFile deletePosition(Table table, DataFile file, long position) throws IOException {
    if (((HasTableOperations) table).operations().current().formatVersion() >= 3) {
      var vectors = new BaseDVFileWriter(OutputFileFactory.builderFor(table, 1, 1).build(), path -> null);
      vectors.delete(file.location(), position, table.spec(), null);
      vectors.close();
      return vectors.result().deleteFiles().get(0);
    }
    var writer = Parquet.writeDeletes(output(table)).withSpec(table.spec()).<Record>buildPositionWriter();
    try (writer) {
      writer.write(PositionDelete.<Record>create().set(file.location(), position));
    }
    return writer.toDeleteFile();
  }

  private static DeleteFile deleteEqual(Table table, String column, long value) throws IOException {
    var field = table.schema().findField(column);
    var schema = new Schema(List.of(field));
    var writer =
        Parquet.writeDeletes(output(table))
            .forTable(table)
            .withSpec(table.spec())
            .rowSchema(schema)
            .createWriterFunc((rows, type) -> GenericParquetWriter.create(rows, type))
            .equalityFieldIds(field.fieldId())
            .<Record>buildEqualityWriter();
    try (writer) {
      Record row = GenericRecord.create(schema);
      row.setField(column, value);
      writer.write(row);
    }
    return writer.toDeleteFile();
  }

  private static OutputFile output(Table table) {
    return table.io().newOutputFile(table.locationProvider().newDataLocation("deletes-" + UUID.randomUUID() + ".parquet"));
  }

  private static Map<String, String> texts(JsonNode object) {
    return object.properties().stream().collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().asText()));
  }
}
