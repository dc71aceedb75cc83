package org.apache.iceberg.rest;

import java.io.Reader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.iceberg.CatalogUtil;
import org.eclipse.jetty.compression.server.CompressionHandler;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * The second catalog: Apache Iceberg's own REST catalog, as the project tests its clients with it.
 *
 * <p>It exists because a promise that holds on one catalog may rest on that catalog's habits. The fixture's own
 * main listens on every interface and wants Hadoop; this one listens on the loopback interface alone and takes its
 * catalog's properties from a file, since they hold a key. It stands in Iceberg's package because what it puts
 * together is visible there only.
 */
public final class CatalogServer {
  private CatalogServer() {}

  /** {@code PORT PROPERTIES-FILE}; says {@code ready} once requests are answered. */
  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    Map<String, String> properties = read(Path.of(arguments[1]));
    Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    server.setHandler(new CompressionHandler(answering(properties)));
    server.start();
    System.out.println("ready");
    server.join();
  }

  private static ServletContextHandler answering(Map<String, String> properties) {
    var catalog = CatalogUtil.buildIcebergCatalog("icefall", properties, null);
    var context = new RESTCatalogServer.CatalogContext(catalog, properties);
    var handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTServerCatalogAdapter(context))), "/*");
    return handler;
  }

  private static Map<String, String> read(Path file) throws Exception {
    var properties = new Properties();
    try (Reader reader = Files.newBufferedReader(file)) {
      properties.load(reader);
    }
    return properties.stringPropertyNames().stream().collect(Collectors.toMap(key -> key, properties::getProperty));
  }
}
