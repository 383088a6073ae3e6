# One image for every role and for the NATS server, whose program comes with its wheel (requirements/run.lock);
# docker-compose.yml says which role a container plays.

# The first stage installs into an environment of its own, by exact version and hash; what it needed for
# that stays behind.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/mizzen
COPY requirements/run.lock requirements/run.lock
RUN /opt/mizzen/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
    -r requirements/run.lock
COPY LICENSE README.md pyproject.toml ./
COPY bench bench
COPY bus bus
COPY components components
COPY core core
COPY mizzen mizzen
COPY runtime runtime
COPY scenarios scenarios
COPY store store
RUN /opt/mizzen/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /home/mizzen mizzen \
    && install --directory --owner mizzen --group mizzen --mode 0750 /var/lib/mizzen
COPY --from=build /opt/mizzen /opt/mizzen
# Asserts state invariants and stay on: PYTHONOPTIMIZE must never be set here.
# A process answers for its health on that socket: `python -I -m runtime.health.check` asks there.
ENV PATH=/opt/mizzen/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MIZZEN_HEALTH=/tmp/mizzen.health
USER mizzen
WORKDIR /var/lib/mizzen
# SIGTERM lets a keeper finish the append it is in.
STOPSIGNAL SIGTERM
CMD ["mizzen", "--help"]
