# The gateway in a container: two stages, so that the image has neither pip's cache nor build tools. It has the packages
# of the extras cluster, postgresql, sso and otel too, so that every setting works.
FROM python:3.13-slim AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/trilogue
COPY requirements-image.lock ./
RUN /opt/trilogue/bin/pip install --require-hashes -r requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/trilogue/bin/pip install --no-deps . \
    && /opt/trilogue/bin/python -m compileall -q /opt/trilogue/lib \
    && /opt/trilogue/bin/pip uninstall --yes pip

FROM python:3.13-slim
RUN groupadd --gid 10001 trilogue \
    && useradd --uid 10001 --gid trilogue --home-dir /var/lib/trilogue --shell /usr/sbin/nologin trilogue \
    && install -d -o trilogue -g trilogue -m 0700 /var/lib/trilogue
COPY --from=build /opt/trilogue /opt/trilogue
# State is in /var/lib/trilogue, the configuration in /etc/trilogue/trilogue.yaml.
ENV PATH=/opt/trilogue/bin:$PATH XDG_STATE_HOME=/var/lib XDG_CONFIG_HOME=/etc PYTHONUNBUFFERED=1
USER trilogue
WORKDIR /var/lib/trilogue
VOLUME /var/lib/trilogue
EXPOSE 4000 4001
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:4000/health', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["trilogue"]
CMD ["serve", "--host", "0.0.0.0"]
