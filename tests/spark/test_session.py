"""Session: its settings, and that the user's come first."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceRegistration

from tidelog.spark import session
from tidelog.spark.session import SETTINGS
from tidelog.spark.sources import SOURCES, register


def test_given_a_session_when_made_then_it_has_our_settings_and_the_users(spark):
    assert spark.conf.get("spark.driver.memory") == "1g"
    for name, value in SETTINGS.items():
        assert spark.conf.get(name) == value
    assert spark.range(10).count() == 10


def test_given_a_worker_when_it_runs_then_it_has_the_installed_pyspark_and_not_an_archive(spark):
    def loaded_from(_):
        import pyspark

        return pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).map(loaded_from).collect() == [pyspark.__file__]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name())
def test_given_a_session_nobody_prepared_when_read_then_it_finds_the_source_by_its_module(
    spark, source
):
    bare = spark.newSession()

    with pytest.raises(PySparkException, match=r"option (path|broker) is missing"):
        bare.read.format(source.name()).schema("key binary").load().collect()


def test_given_sources_that_spark_found_when_registered_then_none_is_put_over_them(
    spark, monkeypatch
):
    put = []
    monkeypatch.setattr(DataSourceRegistration, "register", lambda _, source: put.append(source))

    register(spark)

    assert not put  # Spark would write a warning of each


def test_given_a_session_already_when_asked_for_one_then_it_is_that_with_its_own_settings(spark):
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    spark.conf.set(name, "1000000")

    again = session(conf={"spark.sql.shuffle.partitions": 2})

    assert again is spark
    assert spark.conf.get(name) == "1000000"
    spark.conf.set(name, SETTINGS[name])
